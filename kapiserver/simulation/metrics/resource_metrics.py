"""metrics.k8s.io: what simulated nodes and their pods use, as metrics-server says it.

A pod has metrics while one of its containers runs, and a simulated kubelet runs on its node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kapiserver.api.accessors import labels_of, name_of, namespace_of
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.target_resolver import resolve_target
from kapiserver.apiserver.user import APISERVER
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.simulation.metrics.measurements import measure
from kapiserver.simulation.metrics.usage import (
    Usage,
    node_usage,
    quantities,
)
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.lifecycle import timestamp

_VERSION = "metrics.k8s.io/v1beta1"
_WINDOW = "15s"
_SELECTORS = ("labelSelector", "fieldSelector")


async def read_resource_metrics(server: Server, info: RequestInfo, query: Query) -> Tree:
    """Return the metrics of nodes or pods that a request asks for. Raises UnknownResource,
    MethodNotAllowed, NotFound, and StatusError for a bad selector."""
    target = await resolve_target(server, info)
    target.check_verb(info.verb)
    kind = target.kind.kind
    read = _pod_metrics if kind == "PodMetrics" else _node_metrics
    selectors = {name: query[name][0] for name in _SELECTORS if name in query}
    if info.is_item:
        selectors = {"fieldSelector": f"metadata.name={info.name}"}
    items = await read(server, info.namespace, selectors)
    if not info.is_item:
        return {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": items}
    if not items:
        name = f"{info.namespace}/{info.name}" if info.namespace else info.name
        raise NotFound(resource=kind.lower(), group=info.version.group, name=name)
    return items[0]


def _client(server: Server, resource: str, namespace: str = "") -> ResourceClient:
    client = server.client(APISERVER, authorize=False)
    return client.resource("v1", resource, namespace=namespace).shared


async def _pod_metrics(server: Server, namespace: str, selectors: Mapping[str, Any]) -> list[Tree]:
    measurements, time_slice = await measure(server), TimeSlice()
    metrics = []
    for pod in (await _client(server, "pods", namespace).list(**selectors))["items"]:
        containers = [
            {"name": name, "usage": quantities(usage)}
            for name, usage in measurements.of_pod(pod).items()
        ]
        if containers:
            metrics.append(_metrics(server, "PodMetrics", pod) | {"containers": containers})
        await time_slice.yield_if_expired()
    return metrics


async def _node_metrics(
    server: Server, _namespace: str, selectors: Mapping[str, Any]
) -> list[Tree]:
    measurements, time_slice = await measure(server), TimeSlice()
    usages: dict[str, list[Usage]] = defaultdict(list)
    for pod in (await _client(server, "pods").list())["items"]:
        usages[node_of(pod)] += measurements.of_pod(pod).values()
        await time_slice.yield_if_expired()
    return [
        _metrics(server, "NodeMetrics", node)
        | {"usage": quantities(node_usage(node, usages[name_of(node)]))}
        for node in (await _client(server, "nodes").list(**selectors))["items"]
        if name_of(node) in measurements.nodes
    ]


def _metrics(server: Server, kind: str, obj: Tree) -> Tree:
    """Return the metrics of an object, without the usage."""
    now = timestamp(server.clock.now())
    metadata: Tree = {"name": name_of(obj)}
    if namespace_of(obj):
        metadata["namespace"] = namespace_of(obj)
    metadata["creationTimestamp"] = now
    if labels_of(obj):
        metadata["labels"] = dict(labels_of(obj))
    return {
        "kind": kind,
        "apiVersion": _VERSION,
        "metadata": metadata,
        "timestamp": now,
        "window": _WINDOW,
    }
