"""One revision of one object: its stored bytes, and what has been made of them so far.

Everything derived (tree, labels, selectable fields, encodings) is made at first use, at most
once, and shared by all who ask; trees are never changed. Derived things can be dropped at any
time by the byte budget of `storage/object_codec.py` and are then made again. Knows no media type
and no kind: its `EntryCodec` does.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kapiserver.api.group import GroupVersion
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.storage.kv import Revision


class ObjectKey(NamedTuple):
    """One object of a resource; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str


class Form(NamedTuple):
    """One encoding of an object: in which version, in which medium (json, yaml, protobuf, cbor)."""

    version: GroupVersion
    media: str


@functools.lru_cache(maxsize=1024)
def form_of(version: GroupVersion, media: str) -> Form:
    """A form; each is there once, because every entry keeps that of its encoding."""
    return Form(version, media)


class Selectable(NamedTuple):
    """What selectors see of an object."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


class EntryCodec(Protocol):
    """What an entry's derived things are made by: the resource's codecs and the budget."""

    def key(self, path: str) -> ObjectKey:
        """The object stored under a key of the store."""

    def tree(self, entry: Entry) -> Tree:
        """Decode the stored bytes: hub version, with the entry's resourceVersion."""

    def selectable(self, entry: Entry) -> Selectable:
        """Extract what selectors see, without decoding the rest where that is possible."""

    def prefilter(self, entry: Entry, selection: Selection) -> bool | None:
        """Whether a selection has the entry, as far as that is seen without reading."""

    def splice(self, entry: Entry, form: Form) -> bytes | None:
        """A form that costs next to nothing: put together from stored bytes. None: it costs."""

    def encode(self, entry: Entry, form: Form) -> bytes:
        """Make any other form of the object, as it stands as an item of a list."""

    def on_tree_cached(self, entry: Entry) -> None:
        """The entry keeps its tree from now on."""

    def on_encoding_cached(self, entry: Entry, size: int) -> None:
        """The entry keeps an encoding of that many bytes from now on."""

    def on_superseded(self, entry: Entry) -> None:
        """The entry is not the present revision any more; hardly anybody will ask for it."""

    def admits_encoding(self) -> bool:
        """Whether one of very many encodings should be kept."""


class ListItemSplice(NamedTuple):
    """Where an item of a protobuf list is found in the stored value.

    head, tail  what stands before and behind the message
    start, end  of the message in the value
    size        of all three
    """

    head: bytes
    tail: bytes
    start: int
    end: int
    size: int


class Entry:
    """One revision of one object.

    path        its key in the store
    value       the stored bytes, without a resourceVersion
    revision    that wrote it; 0 for a dry run's outcome that was never written
    spliced     how a protobuf list takes it, once that is known; the origin's to set
    used        whether anything derived was asked for again lately
    """

    __slots__ = (
        "_encodings",
        "_selectable",
        "_tree",
        "codec",
        "list_splice",
        "path",
        "revision",
        "used",
        "value",
    )

    def __init__(
        self,
        origin: EntryCodec,
        path: str,
        value: bytes,
        revision: Revision,
        *,
        tree: Tree | None = None,
    ) -> None:
        self.codec = origin
        self.path = path
        self.value = value
        self.revision = revision
        self._tree = tree
        self._selectable: Selectable | None = None
        self._encodings: tuple[Form, bytes] | dict[Form, bytes] | None = None
        self.list_splice: ListItemSplice | None = None
        self.used = False

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.codec.key(self.path)

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        return self.selectable.labels

    @property
    def fields(self) -> Mapping[str, str]:
        """What field selectors see, `metadata.name` included."""
        return self.selectable.fields

    @property
    def selectable(self) -> Selectable:
        """Labels and fields."""
        found = self._selectable
        if found is None:
            found = self._selectable = self.codec.selectable(self)
        return found

    def is_selected(self, selection: Selection) -> bool:
        """Whether a selection has the object. Where it has one name only, the others are not even
        read: a million objects would take memory and seconds."""
        name = selection.name
        if name is not None and not self.path.endswith(f"/{name}"):
            return False
        if selection.selects_everything:
            return True
        if self._selectable is None and self._tree is None:
            seen = self.codec.prefilter(self, selection)
            if seen is not None:
                return seen
        return selection.matches(*self.selectable)

    @property
    def cached_tree(self) -> Tree | None:
        """The tree if it is at hand. Shared."""
        return self._tree

    def tree(self) -> Tree:
        """The object in the hub version, with its resourceVersion. Shared: never change it."""
        found = self._tree
        if found is None:
            found = self.codec.tree(self)
            self.cache_tree(found)
        else:
            self.used = True
        return found

    def cache_tree(self, tree: Tree) -> None:
        """Keep what the origin read of it."""
        self._tree = tree
        self.codec.on_tree_cached(self)

    def encode(self, form: Form) -> bytes:
        """The object in one form, as it stands in a list: JSON without a line end, a bare
        protobuf message without the envelope, CBOR without the self-describing tag."""
        found = self._cached_encoding(form) or self.codec.splice(self, form)
        if found is None:
            found = self.codec.encode(self, form)
            self._cache_encoding(form, found)
        return found

    def encode_for_list(self, form: Form) -> bytes:
        """The same for a list of very many, which are kept as far as there is room."""
        found = self._cached_encoding(form) or self.codec.splice(self, form)
        if found is None:
            found = self.codec.encode(self, form)
            if self.codec.admits_encoding():
                self._cache_encoding(form, found)
        return found

    def _cached_encoding(self, form: Form) -> bytes | None:
        made = self._encodings
        if made is None:
            return None
        self.used = True
        # Nearly always there is one form alone: a pair takes a quarter of a dictionary's memory.
        if made.__class__ is tuple:
            return made[1] if made[0] == form else None
        return made.get(form)  # type: ignore[union-attr]

    def _cache_encoding(self, form: Form, data: bytes) -> None:
        made = self._encodings
        if made is None:
            self._encodings = (form, data)
        elif isinstance(made, dict):
            made[form] = data
        else:
            self._encodings = dict((made, (form, data)))
        self.codec.on_encoding_cached(self, len(data))

    def set_revision(self, revision: Revision) -> None:
        """The write that this entry was made for has happened."""
        if not self.revision:
            self.revision = revision
            if self._tree is not None:
                self._tree = stamp_resource_version(self._tree, revision)

    def at_revision(self, revision: Revision) -> Entry:
        """The same object at another revision: a deleted one carries that of its deletion."""
        tree = None if self._tree is None else stamp_resource_version(self._tree, revision)
        found = Entry(self.codec, self.path, self.value, revision, tree=tree)
        found._selectable = self._selectable
        return found

    def drop_tree(self) -> None:
        """Forget the tree."""
        self._tree = None

    def drop_encodings(self) -> None:
        """Forget all encodings."""
        self._encodings = None


_BEFORE = ("name", "generateName", "namespace", "selfLink", "uid")


def stamp_resource_version(tree: Tree, revision: int) -> Tree:
    """The tree with `metadata.resourceVersion` in its place; 0: without. Shares the rest."""
    before = tree.get("metadata") or {}
    meta = {name: before[name] for name in _BEFORE if name in before}
    if revision:
        meta["resourceVersion"] = str(revision)
    for name, value in before.items():
        if name not in _STAMPED:
            meta[name] = value
    found = dict(tree)
    found["metadata"] = meta
    return found


_STAMPED = frozenset((*_BEFORE, "resourceVersion"))
