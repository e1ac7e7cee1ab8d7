"""The class that is marked as the default one: of storage, of ingresses. No plugin itself."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import annotations_of, name_of
from kapiserver.apiserver.context import Server
from kapiserver.storage.query import ListQuery


async def default_class(
    server: Server, version: GroupVersion, resource: str, annotations: Sequence[str]
) -> str:
    """The name of the youngest that an annotation marks; "" where none is."""
    store = server.stores.named(version, resource)
    entries = (await store.list(ListQuery(resource_version="0"))).entries
    marked = [
        tree
        for tree in (entry.tree() for entry in entries)
        if any(annotations_of(tree).get(name) == "true" for name in annotations)
    ]
    marked.sort(key=name_of)
    youngest = max(
        marked, key=lambda one: str(one["metadata"].get("creationTimestamp")), default=None
    )
    return name_of(youngest) if youngest is not None else ""
