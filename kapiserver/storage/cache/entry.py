"""One revision of one object: its stored bytes, and the values derived from them.

Derived values (tree, labels, selectable fields, encodings) are made at first use and shared by all
callers; trees are never changed. `storage/cache/encoding_cache.py` may evict them at any time, and
they are then made again. Knows no media type and no kind: its `EntryCodec` does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.storage.cache.shared_bytes import SharedBytes
from kapiserver.storage.kv.contract import Revision


class ObjectKey(NamedTuple):
    """Identifies an object of a resource; the namespace is empty if it is cluster-scoped."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Encoding(NamedTuple):
    """How objects are encoded: in which version and media type (json, yaml, protobuf, cbor)."""

    version: GroupVersion
    media: str


@functools.lru_cache(maxsize=1024)
def encoding_of(version: GroupVersion, media: str) -> Encoding:
    """Return an interned encoding, because every entry refers to one."""
    return Encoding(version, media)


Part: TypeAlias = "Encoding | None"
"""A part of an entry with bytes of its own: an encoding, or None for its stored value."""
Data: TypeAlias = "bytes | SharedBytes"
"""The bytes of a part: in this process, or in memory that several processes share."""


class Selectable(NamedTuple):
    """The labels and fields of an object that selectors match."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


class EntryCodec(Protocol):
    """Derives the values of entries, and accounts for their memory.

    is_tree_loaded      whether a thread has decoded an object: the first one compiles the decoder
    loaded_encodings    the encodings in which a thread has encoded an object without its tree: the
                        first one of each compiles the encoder
    """

    is_tree_loaded: bool
    loaded_encodings: set[Encoding]

    @property
    def large_bytes(self) -> int:
        """The size from which on stored values are decoded and encoded in a thread."""

    def key(self, path: str) -> ObjectKey:
        """Return the namespace and name in a key of the store."""

    def tree(self, entry: Entry) -> Tree:
        """Decode the stored bytes to the hub version, with the entry's resourceVersion."""

    def selectable(self, entry: Entry) -> Selectable:
        """Decode labels and selectable fields, if possible without the rest."""

    def prefilter(self, entry: Entry, selection: Selection) -> bool | None:
        """Match a selection on the raw bytes; None means the object must be decoded."""

    def splice(self, entry: Entry, encoding: Encoding) -> bytes | None:
        """Splice the object from its stored bytes; None for encodings that need more."""

    def encode(self, entry: Entry, encoding: Encoding) -> bytes:
        """Encode the object in any other encoding, as an item of a list."""

    def on_tree_cached(self, entry: Entry, size: int) -> None:
        """Account for a tree that the entry cached, of a value of that many bytes."""

    def on_encoding_cached(self, entry: Entry, size: int) -> None:
        """Account for an encoding of that many bytes that the entry cached."""

    def on_superseded(self, entry: Entry) -> None:
        """Evict the derived values of an entry that is no longer current."""

    def admits_encoding(self) -> bool:
        """Whether a list should cache an encoding."""


class ListItemSplice(NamedTuple):
    """An item of a protobuf list, made from a slice of the stored value.

    head, tail  bytes before and after the message
    start, end  slice of the message in the stored value
    size        length of head, message and tail
    """

    head: bytes
    tail: bytes
    start: int
    end: int
    size: int


LARGE_OBJECT_BYTES = 32 << 10
"""Larger stored objects are decoded and encoded in a thread, which takes up to a microsecond for
each byte."""


class Entry:
    """One revision of one object.

    path        key in the store
    revision    revision of the write; 0 if not written (yet, or by a dry run)
    cached_tree the tree if it is cached, else None; it is shared: never change it
    list_splice how a protobuf list splices the value; set by the codec
    used        whether a derived value was used since it was cached
    """

    __slots__ = (
        "__weakref__",
        "_encodings",
        "_selectable",
        "_value",
        "cached_tree",
        "codec",
        "list_splice",
        "path",
        "revision",
        "used",
    )

    def __init__(
        self,
        codec: EntryCodec,
        path: str,
        value: bytes,
        revision: Revision,
        *,
        tree: Tree | None = None,
    ) -> None:
        self.codec = codec
        self.path = path
        self._value: Data = value
        self.revision = revision
        self.cached_tree: Tree | None = None
        self._selectable: Selectable | None = None
        self._encodings: tuple[Encoding, Data] | dict[Encoding, Data] | None = None
        self.list_splice: ListItemSplice | None = None
        self.used = False
        if tree is not None:
            self.cache_tree(tree)

    @property
    def key(self) -> ObjectKey:
        """The namespace and name of the object."""
        return self.codec.key(self.path)

    @property
    def value(self) -> bytes:
        """The stored bytes, without a resourceVersion."""
        value = self._value
        return value if isinstance(value, bytes) else bytes(value)

    @value.setter
    def value(self, value: bytes) -> None:
        self._value = value

    @property
    def size(self) -> int:
        """The number of stored bytes."""
        return len(self._value)

    @property
    def is_large(self) -> bool:
        """Whether the object is decoded and encoded in a thread (`storage/cache/offload.py`)."""
        return len(self._value) >= self.codec.large_bytes

    def is_slow_to_decode(self) -> bool:
        """Whether a thread is to make the tree: the object is large, or the first of its
        resource."""
        return self.cached_tree is None and (not self.codec.is_tree_loaded or self.is_large)

    def is_slow_to_encode(self, encoding: Encoding) -> bool:
        """Whether a thread is to encode the object: it is large, or the first of its resource in
        this encoding."""
        codec = self.codec
        if self.cached_tree is None and encoding not in codec.loaded_encodings:
            return True
        return len(self._value) >= codec.large_bytes  # `is_large`, without the call of a property

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the object."""
        return self.selectable.labels

    @property
    def fields(self) -> Mapping[str, str]:
        """The selectable fields, `metadata.name` included."""
        return self.selectable.fields

    @property
    def selectable(self) -> Selectable:
        """The labels and the selectable fields, decoded if they are not cached."""
        selectable = self._selectable
        if selectable is None:
            selectable = self._selectable = self.codec.selectable(self)
        return selectable

    @property
    def has_selectable(self) -> bool:
        """Whether labels and fields are cached, so that `selectable` does not decode the object."""
        return self._selectable is not None

    def cache_selectable(self, selectable: Selectable) -> None:
        """Cache labels and selectable fields."""
        self._selectable = selectable

    def is_selected(self, selection: Selection) -> bool:
        """Whether a selection matches the object. Objects of another name than the selected one
        are not decoded: for a million objects that would take seconds."""
        name = selection.name
        if name is not None and not self.path.endswith(f"/{name}"):
            return False
        if selection.selects_everything:
            return True
        if self._selectable is None and self.cached_tree is None:
            matched = self.codec.prefilter(self, selection)
            if matched is not None:
                return matched
        return selection.matches(*self.selectable)

    def tree(self) -> Tree:
        """Return the object in the hub version, with its resourceVersion. It is shared: never
        change it."""
        tree = self.cached_tree
        if tree is None:
            tree = self.codec.tree(self)
            self.cache_tree(tree)
        else:
            self.used = True
        return tree

    def cache_tree(self, tree: Tree) -> None:
        """Cache a decoded tree."""
        self.cached_tree = tree
        self.codec.on_tree_cached(self, len(self._value))

    def encode(self, encoding: Encoding) -> bytes:
        """Return the object as an item of a list: JSON without a newline, a protobuf message
        without the envelope, CBOR without the self-describing tag."""
        data = self.cached_encoding(encoding) or self.codec.splice(self, encoding)
        if data is None:
            data = self.codec.encode(self, encoding)
            self.cache_encoding(encoding, data)
        return data

    def is_encoded(self, encoding: Encoding) -> bool:
        """Whether `encode` returns cached or spliced bytes and does not encode the object."""
        data = self.cached_encoding(encoding) or self.codec.splice(self, encoding)
        return data is not None

    def encode_for_list(self, encoding: Encoding) -> bytes:
        """Return `encode(encoding)`, cached only as far as there is room for long lists."""
        data = self.cached_encoding(encoding) or self.codec.splice(self, encoding)
        if data is None:
            data = self.codec.encode(self, encoding)
            if self.codec.admits_encoding():
                self.cache_encoding(encoding, data)
        return data

    def cached_encoding(self, encoding: Encoding) -> bytes | None:
        """Return an encoding if it is cached, else None."""
        encodings = self._encodings
        if encodings is None:
            return None
        self.used = True
        # Most entries have one encoding: a tuple takes a quarter of a dictionary's memory.
        if isinstance(encodings, tuple):
            data = encodings[1] if encodings[0] == encoding else None
        else:
            data = encodings.get(encoding)
        return data if data is None or isinstance(data, bytes) else bytes(data)

    def cache_encoding(self, encoding: Encoding, data: bytes) -> None:
        """Cache the object in one encoding."""
        encodings = self._encodings
        if encodings is None:
            self._encodings = (encoding, data)
        elif isinstance(encodings, dict):
            encodings[encoding] = data
        else:
            self._encodings = dict((encodings, (encoding, data)))
        self.codec.on_encoding_cached(self, len(data))

    def parts(self) -> Iterator[tuple[Part, Data]]:
        """Yield the stored value and the cached encodings."""
        yield None, self._value
        encodings = self._encodings
        if isinstance(encodings, tuple):
            yield encodings
        elif encodings is not None:
            yield from tuple(encodings.items())

    def share(self, part: Part, data: SharedBytes) -> None:
        """Use shared memory for a part if it has equal bytes there."""
        for own_part, own_data in self.parts():
            if own_part == part and bytes(own_data) == bytes(data):
                if part is None:
                    self._value = data
                elif isinstance(self._encodings, dict):
                    self._encodings[part] = data
                else:
                    self._encodings = part, data

    def unshare(self) -> None:
        """Keep all bytes in this process, so that segments with them may be freed."""
        if isinstance(self._value, SharedBytes):
            self._value = bytes(self._value)
        encodings = self._encodings
        if isinstance(encodings, tuple):
            if isinstance(encodings[1], SharedBytes):
                self._encodings = encodings[0], bytes(encodings[1])
        elif encodings is not None:
            self._encodings = {part: bytes(data) for part, data in tuple(encodings.items())}

    def set_revision(self, revision: Revision) -> None:
        """Set the revision after the entry was written."""
        if not self.revision:
            self.revision = revision
            if self.cached_tree is not None:
                self.cached_tree = stamp_resource_version(self.cached_tree, revision)

    def at_revision(self, revision: Revision) -> Entry:
        """Return the object at another revision: a deleted object has the deletion's revision."""
        tree = self.cached_tree
        if tree is not None:
            tree = stamp_resource_version(tree, revision)
        entry = Entry(self.codec, self.path, self.value, revision, tree=tree)
        entry._selectable = self._selectable
        return entry

    def lend_tree(self, tree: Tree) -> None:
        """Set the tree until the caller drops it, without accounting for it."""
        self.cached_tree = tree

    def drop_tree(self) -> None:
        """Evict the tree."""
        self.cached_tree = None

    def drop_encodings(self) -> None:
        """Evict all encodings."""
        self._encodings = None


_FIELDS_BEFORE = ("name", "generateName", "namespace", "selfLink", "uid")


def stamp_resource_version(tree: Tree, revision: int) -> Tree:
    """Return a copy with `metadata.resourceVersion`, or without for revision 0. Shares the rest."""
    before = tree.get("metadata") or {}
    if revision and "resourceVersion" not in before:
        meta = {name: before[name] for name in _FIELDS_BEFORE if name in before}
        meta["resourceVersion"] = ""  # its place
        meta |= before
    else:
        meta = dict(before)
    if revision:
        meta["resourceVersion"] = str(revision)
    else:
        meta.pop("resourceVersion", None)
    return {**tree, "metadata": meta}
