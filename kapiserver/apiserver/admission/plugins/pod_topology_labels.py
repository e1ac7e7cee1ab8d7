"""PodTopologyLabels: copies the zone and the region of a node to the pods that are bound to it, so
that their containers can read them.

Mirrors plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from kapiserver.api.accessors import labels_of, metadata_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the labels of a Binding, which the pod gets, or of a new pod that names its node."""
    if new is None:
        return
    if attributes.target.subresource:
        target = new.get("target") or {}
        node_name = target.get("name") if target.get("kind") == "Node" else ""
    else:
        node_name = value_at(new, "spec", "nodeName")
    if not node_name:
        return
    nodes = server.stores.by_name(CORE, "nodes")
    try:
        node = (await nodes.get(ObjectKey("", node_name), resource_version="0")).tree()
    except NotFound:
        return
    copied = {name: value for name, value in labels_of(node).items() if name in _LABELS}
    if copied:
        metadata = metadata_of(new)
        metadata["labels"] = dict(sorted({**labels_of(new), **copied}.items()))
        reorder_keys(metadata, ObjectMeta)
