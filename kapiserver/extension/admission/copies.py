"""Copies of the host's objects: in a store in memory, or as trees.

The admission plugins read namespaces, webhooks and policies through the informers of a store, so
that copies in a store serve them as they are. The parameters of policies may be of any kind, also
of one without a type here, so that these copies are trees.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import labels_of, name_of, namespace_of
from kapiserver.api.group import Resource
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.cost import LARGE, cost_of_tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.object_decoder import decode_object
from kapiserver.codecs.storage_codec import encode_for_storage
from kapiserver.extension.host_cluster import HostFailed
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.kv.contract import KV, Revision

_UNPROCESSABLE = 422


class CopyStore(Struct, frozen=True, kw_only=True):
    """Where copies of typed objects are: a store in memory, and the prefix of its keys."""

    kv: KV
    codecs: CodecFactory
    offloader: Offloader
    root: str


class _Copy(Struct, frozen=True):
    value: bytes
    revision: Revision


class StoredCopies:
    """The copies of one cluster-scoped resource with a type."""

    def __init__(self, store: CopyStore, resource: Resource) -> None:
        self._store = store
        self._prefix = f"{store.root}/{resource.prefix}/"
        self._copies: dict[str, _Copy] = {}

    async def replace(self, objects: Sequence[Tree]) -> None:
        """Keep these objects and no others. Raises HostFailed, StorageError."""
        deleted_names = self._copies.keys() - {name_of(obj) for obj in objects}
        for obj in objects:
            await self.put(obj)
        for name in deleted_names:
            await self._remove(name)

    async def put(self, obj: Tree) -> None:
        """Keep a new object, or a changed one. Raises HostFailed, StorageError."""
        name, kv = name_of(obj), self._store.kv
        if cost_of_tree(obj) >= LARGE:
            run = self._store.offloader.run_in_thread
            value = await run(self._encode, obj, limited=False)
        else:
            value = self._encode(obj)
        stored = self._copies.get(name)
        if stored is None:
            revision = await kv.create(self._prefix + name, value)
        elif stored.value != value:
            revision = await kv.update(self._prefix + name, value, expected=stored.revision)
        else:
            return
        self._copies[name] = _Copy(value, revision)

    async def remove(self, obj: Tree) -> None:
        """Forget an object. Raises StorageError."""
        await self._remove(name_of(obj))

    async def _remove(self, name: str) -> None:
        stored = self._copies.pop(name, None)
        if stored is not None:
            await self._store.kv.delete(self._prefix + name, expected=stored.revision)

    def _encode(self, obj: Tree) -> bytes:
        """Raises HostFailed."""
        codecs = self._store.codecs
        try:
            tree = decode_object(codecs.scheme, obj, defaults=None, source=b"").object
            tree["metadata"].pop("resourceVersion", None)
            return encode_for_storage(codecs, tree)
        except (CodecError, KeyError) as error:
            raise HostFailed(f"{self._prefix}{name_of(obj)}: {error}", _UNPROCESSABLE) from None


class TreeCopies:
    """The copies of one resource of any kind, as the host sends them."""

    def __init__(self) -> None:
        self._trees: dict[tuple[str, str], Tree] = {}

    async def replace(self, objects: Sequence[Tree]) -> None:
        """Keep these objects and no others."""
        self._trees = {(namespace_of(obj), name_of(obj)): obj for obj in objects}

    async def put(self, obj: Tree) -> None:
        """Keep a new object, or a changed one."""
        self._trees[namespace_of(obj), name_of(obj)] = obj

    async def remove(self, obj: Tree) -> None:
        """Forget an object."""
        self._trees.pop((namespace_of(obj), name_of(obj)), None)

    def get(self, namespace: str, name: str) -> Tree | None:
        """Return one object, or None."""
        return self._trees.get((namespace, name))

    def select(self, namespace: str, selection: Selection) -> Sequence[Tree]:
        """Return the selected objects of a namespace, "" for all, in order of their names."""
        return [
            obj
            for (kind, _), obj in sorted(self._trees.items())
            if namespace in ("", kind) and selection.matches(labels_of(obj), {})
        ]
