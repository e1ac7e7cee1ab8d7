"""The namespaces of writes, for admission."""

from __future__ import annotations

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound


async def namespace_object(server: Server, name: str) -> Tree:
    """Return a namespace from the watch cache, or from the store, or from the host cluster if the
    cache lacks it. The tree is shared: never change it. Raises NotFound, InternalError."""
    namespaces = server.stores.by_name(CORE, "namespaces")
    key = ObjectKey("", name)
    entry = namespaces.cached_entry(key)
    if entry is None:
        try:
            entry = await namespaces.get_cached_first(key)
        except NotFound:
            reader = server.host_reader
            namespace = await reader.namespace(name) if reader is not None else None
            if namespace is None:
                raise
            return namespace
    return entry.tree()
