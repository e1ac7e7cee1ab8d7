"""The types of custom kinds: one for each version of a definition, made when first needed.

Apart from `custom.py`, so that a server without custom kinds loads no type for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapiserver.api.meta.v1 import ListMeta, ObjectMeta
from kapiserver.api.types import Kind, field

if TYPE_CHECKING:
    from kapiserver.api.custom import CustomVersion
    from kapiserver.api.merge_schema import Node


class CustomKind(Kind):
    """A custom kind in one version. Its trees hold what the version's schema lets through; the
    order of their keys means nothing: whoever writes them sorts them."""

    wire = False
    version: ClassVar[CustomVersion]

    metadata: ObjectMeta = field(doc="Standard object metadata.")

    @classmethod
    def merge_node(cls) -> Node:
        return cls.version.merge_node


class CustomList(Kind):
    """The lists of a custom kind in one version."""

    wire = False
    listed = False
    version: ClassVar[CustomVersion]

    metadata: ListMeta = field()


def type_of_objects(version: CustomVersion) -> type[CustomKind]:
    """The kind of a version as a type."""
    found: type[CustomKind] = _subclass(CustomKind, version.definition.kind, version)
    return found


def type_of_lists(version: CustomVersion) -> type[CustomList]:
    """The kind of its lists as a type."""
    found: type[CustomList] = _subclass(CustomList, version.definition.list_kind, version)
    return found


def _subclass(base: Any, name: str, version: CustomVersion) -> Any:
    return type(name, (base,), {"version": version, "__module__": __name__})
