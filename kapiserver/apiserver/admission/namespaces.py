"""The namespaces of writes, for admission."""

from __future__ import annotations

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound


async def namespace_object(server: Server, name: str) -> Tree:
    """Return a namespace from the watch cache, or from the store if the cache is behind. The tree
    is shared: never change it. Raises NotFound."""
    namespaces = server.stores.by_name(CORE, "namespaces")
    key = ObjectKey("", name)
    entry = namespaces.cached_entry(key)
    if entry is not None:
        return entry.tree()
    try:
        return (await namespaces.get(key, resource_version="0")).tree()
    except NotFound:
        return (await namespaces.get(key)).tree()
