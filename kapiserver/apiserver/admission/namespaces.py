"""The namespaces of writes, for admission."""

from __future__ import annotations

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey


async def namespace_object(server: Server, name: str) -> Tree:
    """Return a namespace from the watch cache, or from the store if the cache lacks it. The tree is
    shared: never change it. Raises NotFound."""
    namespaces = server.stores.by_name(CORE, "namespaces")
    key = ObjectKey("", name)
    entry = namespaces.cached_entry(key)
    if entry is None:
        entry = await namespaces.get_cached_first(key)
    return entry.tree()
