"""KindInfo: the properties of one resource in one version, built-in or custom.

The Scheme returns a KindInfo for a version and a plural name, and an ObjectInfo for a kind, with or
without a resource. `builtin_kinds.BuiltinKind` and `custom_kinds.CustomVersion` implement both.
Code with a KindInfo does not ask whether the kind is custom, only for its capabilities. Knows no
bytes, no store and no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kapiserver.api.columns import Columns
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource, Subresource
from kapiserver.api.selectable_fields import Extractor
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from kapiserver.api.custom_kinds import Definition


class ObjectInfo(Protocol):
    """The objects of one kind in one version."""

    @property
    def is_typed(self) -> bool:
        """Whether a declared type describes the objects. Typed objects are stored in Protobuf, and
        have a key order, and merge keys for strategic merge patches."""

    @property
    def has_protobuf(self) -> bool:
        """Whether clients may send and get the objects in Protobuf."""

    @property
    def conversion_webhook(self) -> Definition | None:
        """The definition whose webhook converts the objects; None if no webhook does."""

    @property
    def columns(self) -> Columns:
        """The table columns, for objects in the hub version."""

    def default(self, obj: Tree) -> None:
        """Set the defaults of an object, in place. Raises NotRegistered."""

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version; the result may share parts with it.

        Raises NotRegistered and ConversionFailed.
        """


class KindInfo(ObjectInfo, Protocol):
    """One resource in one version."""

    @property
    def resource(self) -> Resource:
        """The names, scope, verbs and subresources."""

    @property
    def group_version(self) -> GroupVersion:
        """The version of the objects."""

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the objects, in that version."""

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has been called."""

    def load(self) -> None:
        """Import and compile the parts that every request needs. Takes long; runs in a thread."""

    @property
    def loaded_uses(self) -> set[tuple[str, str, str]]:
        """The verb, subresource and media type of the body of requests that have succeeded: the
        first one of each has loaded what others need."""

    def default_cost(self, data: bytes, /) -> int:
        """Return the number of values that defaults may add to an encoded object or patch."""

    @property
    def is_terminating(self) -> bool:
        """Whether the CustomResourceDefinition is being deleted, so that creates are refused."""

    @property
    def hub(self) -> GroupVersion:
        """The version in which the objects are handled."""

    @property
    def stored_version(self) -> GroupVersion:
        """The version in which the objects are stored, unless a webhook converts them before
        decoding."""

    @property
    def discovery_verbs(self) -> Sequence[str]:
        """The verbs in the order of discovery."""

    @property
    def discovery_subresources(self) -> Sequence[Subresource]:
        """The subresources in the order of discovery."""

    @property
    def field_extractor(self) -> Extractor:
        """The extractor of selectable fields, for objects in the hub version."""

    @property
    def scale(self) -> Tree | None:
        """The JSON paths of the scale subresource; None for the standard paths."""

    def strategy(self, subresource: str = "") -> Strategy:
        """Return the strategy of the objects or of one of their subresources. The first call
        imports validation; a thread makes it."""
