"""The namespaces of writes, for admission."""

from __future__ import annotations

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound


def cached_namespace(server: Server, name: str) -> Tree | None:
    """Return a namespace from the watch cache, or None if it lacks it. The tree is shared: never
    change it."""
    entry = server.stores.by_name(CORE, "namespaces").cached_entry(ObjectKey("", name))
    return None if entry is None else entry.tree()


async def namespace_object(server: Server, name: str) -> Tree:
    """Return a namespace from the watch cache, or from the store, or from the host cluster if the
    cache lacks it. The tree is shared: never change it. Raises NotFound, InternalError."""
    namespace = cached_namespace(server, name)
    if namespace is not None:
        return namespace
    namespaces = server.stores.by_name(CORE, "namespaces")
    try:
        return (await namespaces.get_cached_first(ObjectKey("", name))).tree()
    except NotFound:
        reader = server.host_reader
        namespace = await reader.namespace(name) if reader is not None else None
        if namespace is None:
            raise
        return namespace
