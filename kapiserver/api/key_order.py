"""Key order: keeps the keys of an object in the order in which its type declares them.

Code that adds a key to a canonical tree reorders the keys afterwards, so that encoding is a plain
dump. Knows no kind.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.types import Tree, Type, cached_in_type


def reorder_keys(tree: Tree, type_: type[Type]) -> None:
    """Put the keys of one object, not of nested ones, in declared order, in place.

    Keys that the type does not declare come last.
    """
    key: Any = type_
    order = _order(key, tuple(tree))
    if order is not None:
        values = [*map(tree.get, order)]
        tree.clear()
        tree.update(zip(order, values, strict=True))


@functools.lru_cache(maxsize=4096)  # objects of a kind mostly have the same keys
def _order(type_: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names in declared order; None if they are in order already."""
    rank = _ranks(type_)
    order = tuple(sorted(names, key=lambda name: rank.get(name, len(rank))))
    return None if order == names else order


@cached_in_type
def _ranks(type_: type[Type]) -> dict[str, int]:
    return {flat.field.name: rank for rank, flat in enumerate(type_.flat_fields())}
