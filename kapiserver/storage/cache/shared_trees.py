"""Trees of values that many stores share, decoded once for all of them.

A tree in a watch cache never changes, so that a tree of the same bytes at the same revision serves
every store. Logical clusters share those of the objects that every cluster has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapiserver.api.types import Tree
from kapiserver.storage.kv.contract import Revision


class SharedTrees:
    """The trees of some values, all of one revision."""

    def __init__(self, values: Iterable[bytes], revision: Revision) -> None:
        self._revision = revision
        self._trees: dict[bytes, Tree | None] = dict.fromkeys(values)
        self._metadata: dict[bytes, Tree | None] = dict.fromkeys(self._trees)

    def tree(self, value: bytes, revision: Revision, decode: Callable[[], Tree]) -> Tree:
        """Return the tree of a value, which is shared if the value is one of these."""
        if revision != self._revision:
            return decode()
        return _shared(self._trees, value, decode)

    def metadata(self, value: bytes, decode: Callable[[], Tree]) -> Tree:
        """Return the part of the metadata that `ownership_metadata` of an object codec decodes."""
        return _shared(self._metadata, value, decode)


def _shared(trees: dict[bytes, Tree | None], value: bytes, decode: Callable[[], Tree]) -> Tree:
    tree = trees.get(value)
    if tree is None:
        tree = decode()
        if value in trees:
            trees[value] = tree
    return tree
