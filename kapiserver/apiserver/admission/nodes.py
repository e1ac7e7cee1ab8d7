"""The node of a pod, for plugins that check what it can do."""

from __future__ import annotations

from kapiserver.api.accessors import metadata_of, value_at
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound


async def node_of_changed_pod(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> Tree | None:
    """Return the node of a pod whose spec an update changes; None if the spec is the same or the
    pod has no node. The tree is shared: never change it. Raises Forbidden for a missing node."""
    name = value_at(new or {}, "spec", "nodeName")
    if new is None or old is None or not name:
        return None
    if metadata_of(new).get("generation") == metadata_of(old).get("generation"):
        return None
    nodes = server.stores.by_name(CORE, "nodes")
    try:
        return (await nodes.get(ObjectKey("", name), resource_version="0")).tree()
    except NotFound:
        raise attributes.forbidden(f"node {quote(name)} not found") from None
