"""Ratcheting: correlating new values with old ones and comparing them (KEP-4008).

Items of a list of type map are correlated by their keys, those of a plain list by their index;
items of sets and atomic lists have no old value. Mirrors k8s.io/apiserver/pkg/cel/common,
correlation.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kapiserver.api.apiextensions.schema import list_types
from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.types import Value

ABSENT: Any = object()
"""The old value if there is none."""


class CorrelatedList:
    """The old items of a list, looked up by new items."""

    __slots__ = ("by_key", "keys", "node", "old")

    def __init__(self, old: Value, node: Structural) -> None:
        is_correlatable = isinstance(old, list) and node.list_type not in ("set", "atomic")
        self.old: list[Value] | None = old if is_correlatable else None
        self.node = node
        self.keys = node.map_keys if node.list_type == "map" else ()
        self.by_key: dict[Hashable, Value] | None = None

    def item(self, index: int, value: Value) -> Value:
        """Return the old item that correlates with the new one at `index`, or ABSENT."""
        if self.old is None:
            return ABSENT
        if not self.keys:
            return self.old[index] if index < len(self.old) else ABSENT
        if self.by_key is None:
            # Of several items with the same key, the first counts.
            self.by_key = {self._key(old_item): old_item for old_item in reversed(self.old)}
        return self.by_key.get(self._key(value), ABSENT)

    def _key(self, value: Value) -> Hashable:
        if not isinstance(value, dict):
            return None
        return tuple(list_types.identity(value.get(key)) for key in self.keys)


def is_unchanged(old: Value, new: Value, node: Structural | None) -> bool:
    """Report whether a value is unchanged; the order of a list of type map is ignored."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(new, dict):
        if old.keys() != new.keys():
            return False
        return all(is_unchanged(old[name], new[name], node and node.field(name)) for name in new)
    if isinstance(new, list):
        if len(old) != len(new):
            return False
        items = node.items if node else None
        if node is not None and node.list_type == "map":
            correlated = CorrelatedList(old, node)
            return all(
                is_unchanged(correlated.item(index, item), item, items)
                for index, item in enumerate(new)
            )
        return all(
            is_unchanged(old_item, item, items) for old_item, item in zip(old, new, strict=True)
        )
    return bool(old == new)
