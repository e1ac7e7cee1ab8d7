"""Keeping an object's keys in the order in which its type declares them.

Whatever adds a key to a canonical tree settles it afterwards, so that encoding stays a plain dump.
Knows no kind.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.types import Tree, Type


def settle(tree: Tree, type_: type[Type]) -> None:
    """Put the keys of one object (not of those below it) in declared order, in place.

    Keys that the type does not know stay behind the others.
    """
    key: Any = type_
    rank = _ranks(key)
    last = -1
    for name in tree:
        at = rank.get(name, len(rank))
        if at < last:
            break
        last = at
    else:
        return
    items = sorted(tree.items(), key=lambda item: rank.get(item[0], len(rank)))
    tree.clear()
    tree.update(items)


@functools.cache
def _ranks(type_: type[Type]) -> dict[str, int]:
    return {flat.field.name: rank for rank, flat in enumerate(type_.flat_fields())}
