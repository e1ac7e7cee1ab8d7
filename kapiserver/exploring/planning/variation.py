"""The change of one property of a custom resource, as a plan names it. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from kapiserver.api.accessors import copy_tree
from kapiserver.api.types import Tree
from kapiserver.exploring.history import ObjectRef


class Variation(Struct, frozen=True, kw_only=True):
    """One property of one object with another value.

    A variation is valid if the operator should reach the state of a fresh installation with the
    same object. A value that the schema allows and that makes no sense is not valid: of it, only
    the way back counts.

    path        the names of the property, as in `("spec", "size")`
    value       None if `is_absent`
    """

    object: ObjectRef
    path: tuple[str, ...]
    value: Any = None
    is_absent: bool = False
    is_valid: bool = True

    def to_text(self) -> str:
        """Return the variation as a text that `parse_variation` reads."""
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        value = "absent" if self.is_absent else msgspec.json.encode(self.value).decode()
        return f"{'.'.join(self.path)} of {self.object} to {value}"

    def changed(self, obj: Tree) -> Tree:
        """Return a copy of the object with the value."""
        copy: Tree = copy_tree(obj)
        parent = copy
        for name in self.path[:-1]:
            parent = parent.setdefault(name, {})
        if self.is_absent:
            parent.pop(self.path[-1], None)
        else:
            parent[self.path[-1]] = self.value
        return copy


def parse_variation(text: str) -> Variation:
    """Return the variation of a text. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=Variation)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{text!r} is not a variation: {error}") from error
