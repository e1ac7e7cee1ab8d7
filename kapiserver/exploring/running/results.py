"""What a server has at the end of a run: its objects, and requests that authorization refused."""

from __future__ import annotations

import msgspec

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.exploring.history import OPERATOR, History, ObjectRef, Request
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.dumps import dumped_objects, dumped_resources
from kapiserver.testing.state.memory_store import Snapshot
from kapiserver.testing.state.snapshots import is_left_to_controllers


async def read_state(server: TestServer, clean: Snapshot) -> dict[ObjectRef, Tree]:
    """Return the objects of a server that are not in the snapshot or differ from it, by their
    references. A node that reports its status does not differ."""
    api_server = server.running.cluster.server
    snapshot = await server.state.snapshot_async()
    items = [item for item in snapshot.items if not is_left_to_controllers(item)]
    changed = dumped_objects(api_server, items, dumped_resources(api_server, ()), "", clean.items)
    has_nodes = any(obj["kind"] == "Node" for obj in changed)
    nodes = _nodes(api_server, clean) if has_nodes else frozenset()
    state = {}
    for obj in changed:
        if obj["kind"] == "Node" and _node(obj) in nodes:
            continue
        resource = api_server.scheme.resource_of(
            GroupVersion.parse(obj["apiVersion"]).with_kind(obj["kind"])
        )
        metadata = obj["metadata"]
        name = resource.qualified_name
        state[ObjectRef(name, metadata.get("namespace", ""), metadata["name"])] = obj
    return state


def _nodes(server: Server, snapshot: Snapshot) -> frozenset[bytes]:
    """Return what others than the kubelets have set in the nodes of a snapshot."""
    objects = dumped_objects(server, snapshot.items, dumped_resources(server, ("nodes",)), "", ())
    return frozenset(map(_node, objects))


def _node(obj: Tree) -> bytes:
    """Return what others than the kubelet set in a node, so that it can be compared."""
    metadata = obj["metadata"]
    parts = [metadata.get(name) for name in ("name", "labels", "annotations", "finalizers")]
    return msgspec.json.encode([obj["kind"], *parts, obj.get("spec")], order="deterministic")


def forbidden_requests(server: TestServer, user: str, history: History) -> list[Request]:
    """Return the requests of the operator that authorization refused. They are not in the history,
    because authorization comes before the injector; they count as later than all of it."""
    seen = {(request.verb, request.uri) for request in history.requests}
    positions = [request.position for request in history.requests]
    positions += [commit.position for commit in history.commits]
    last = max(positions, default=0)
    return [
        Request(
            position=last + 1,
            actor=OPERATOR,
            verb=record.verb,
            object=ObjectRef(record.resource, record.namespace, record.object_name),
            subresource=record.subresource,
            uri=record.uri,
            status=record.status,
        )
        for record in server.requests.select(status=403, user=user)
        if (record.verb, record.uri) not in seen
    ]
