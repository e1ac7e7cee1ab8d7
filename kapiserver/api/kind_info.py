"""KindInfo: what the server knows of one resource in one version, built-in or custom.

The Scheme returns a KindInfo for a version and a plural name, and an ObjectInfo for a kind, which
need not have a resource. `builtin_kinds.BuiltinKind` and `custom_kinds.CustomVersion` implement
both. Code that is given one never asks which it is, but for what it is able to do. Knows no bytes,
no store and no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kapiserver.api.columns import Columns
from kapiserver.api.group import GroupVersion, Resource, Subresource
from kapiserver.api.selectable_fields import Extractor
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from kapiserver.api.custom_kinds import Definition


class ObjectInfo(Protocol):
    """The objects of one kind in one version."""

    @property
    def is_typed(self) -> bool:
        """Whether a declared type describes the objects. Such objects have a Protobuf form, an
        order of their fields, and list keys for strategic merge patches."""

    @property
    def conversion_webhook(self) -> Definition | None:
        """The definition whose webhook converts the objects; None if they need none."""

    @property
    def columns(self) -> Columns:
        """The columns of tables; their cells read the hub version."""

    def default(self, obj: Tree) -> None:
        """Fill in, in place, what the client left out. Raises NotRegistered."""

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version; it may share parts with the given one. Raises
        NotRegistered, ConversionFailed."""


class KindInfo(ObjectInfo, Protocol):
    """One resource in one version."""

    @property
    def resource(self) -> Resource:
        """The names, scope, verbs and subresources."""

    @property
    def group_version(self) -> GroupVersion:
        """The version of the objects."""

    @property
    def is_compiled(self) -> bool:
        """Whether `compile` has nothing left to do."""

    def compile(self) -> None:
        """Compile what every request needs. May take long; safe in a thread."""

    @property
    def is_terminating(self) -> bool:
        """Whether the CustomResourceDefinition is being deleted; creates are refused then."""

    @property
    def hub(self) -> GroupVersion:
        """The version in which the objects are handled."""

    @property
    def stored_version(self) -> GroupVersion:
        """The version in which the objects are stored, as far as the server converts them."""

    @property
    def discovery_verbs(self) -> Sequence[str]:
        """The verbs as discovery shows them."""

    @property
    def discovery_subresources(self) -> Sequence[Subresource]:
        """The subresources in the order in which discovery shows them."""

    @property
    def field_extractor(self) -> Extractor:
        """What reads the selectable fields of objects in the hub version."""

    @property
    def scale(self) -> Tree | None:
        """The JSON paths of the scale subresource; None if the usual fields have the replicas."""

    def strategy(self, subresource: str = "") -> Strategy:
        """Return how writes of the objects, or of one of their subresources, behave."""
