"""Reads the metrics of autoscalers through the API: metrics.k8s.io, custom.metrics.k8s.io and
external.metrics.k8s.io, whoever serves them.

Mirrors pkg/controller/podautoscaler/metrics and the clients of k8s.io/metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kapiserver.api.accessors import name_of
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.quantity import parse
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.durations import parse_duration
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.metric_sources import (
    SOURCES,
    Reading,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    MetricsError,
    PodMetric,
    PodMetrics,
)
from kapiserver.controllers.workloads.pods import seconds_of

_RESOURCE_METRICS = GroupVersion("metrics.k8s.io", "v1beta1")
_CUSTOM_METRICS = GroupVersion("custom.metrics.k8s.io", "v1beta2")
_EXTERNAL_METRICS = GroupVersion("external.metrics.k8s.io", "v1beta1")
_DEFAULT_WINDOW = 60.0

ResourceNames = Callable[[str, str], Sequence[str]]
"""Returns the plural names of a kind, by group and kind."""


class MetricsClient:
    """Reads metrics with the rights of a controller.

    names  returns the resources of an object that a metric is about
    """

    def __init__(self, context: ControllerContext, names: ResourceNames) -> None:
        self._context = context
        self._names = names
        self._readers: Mapping[str, Callable[[str, Tree, str], Awaitable[Reading]]] = {
            "Resource": self._resource,
            "ContainerResource": self._resource,
            "Pods": self._pods,
            "Object": self._object,
            "External": self._external,
        }

    async def read(self, namespace: str, metric: Tree, selector: str) -> Reading:
        """Return what a metric of an autoscaler reads, or why it cannot be read.

        selector  the label selector of the pods that the autoscaler scales
        """
        source = SOURCES.get(metric["type"])
        if source is None:
            return MetricsError("unknown metric source type")
        try:
            return await self._readers[metric["type"]](namespace, metric[source.field], selector)
        except MetricsError as error:
            return error

    async def _resource(self, namespace: str, source: Tree, selector: str) -> PodMetrics:
        client = self._client(_RESOURCE_METRICS, "pods", namespace)
        items = await self._items(client.list(labelSelector=selector), client, "resource")
        name, container = source["name"], source.get("container") or ""
        values = {name_of(item): _usage(item, name, container) for item in items}
        return {
            name_of(item): PodMetric(
                value, _timestamp(item), parse_duration(item.get("window") or "") or 0.0
            )
            for item in items
            if (value := values[name_of(item)]) is not None
        }

    async def _pods(self, namespace: str, source: Tree, selector: str) -> PodMetrics:
        client = self._client(_CUSTOM_METRICS, "pods", namespace)
        metric = source["metric"]
        listed = client.get(
            "*",
            subresource=metric["name"],
            labelSelector=selector,
            metricLabelSelector=_selector(metric),
        )
        return {
            item["describedObject"]["name"]: PodMetric(
                _value(item),
                _timestamp(item),
                float(item.get("windowSeconds") or _DEFAULT_WINDOW),
            )
            for item in await self._items(listed, client, "custom")
        }

    async def _object(self, namespace: str, source: Tree, _selector_text: str) -> Sequence[int]:
        described, metric = source["describedObject"], source["metric"]
        kind = GroupVersionKind.from_reference(described.get("apiVersion") or "", described["kind"])
        name, subresource = described["name"], metric["name"]
        if (kind.group, kind.kind) == ("", "Namespace"):
            resource, name, subresource = "metrics", metric["name"], ""
        else:
            resource = self._resource_name(kind)
        client = self._client(_CUSTOM_METRICS, resource, namespace)
        read = client.get(name, subresource=subresource, metricLabelSelector=_selector(metric))
        return [_value(item) for item in (await self._items(read, client, "custom"))[:1]]

    def _resource_name(self, kind: GroupVersionKind) -> str:
        """Return the resource of an object, with its group. Raises MetricsError."""
        for name in self._names(kind.group, kind.kind):
            return f"{name}.{kind.group}" if kind.group else name
        raise MetricsError(
            "unable to fetch metrics from custom metrics API: "
            f'no matches for kind "{kind.kind}" in group "{kind.group}"'
        )

    async def _external(self, namespace: str, source: Tree, _selector_text: str) -> Sequence[int]:
        metric = source["metric"]
        client = self._client(_EXTERNAL_METRICS, metric["name"], namespace)
        listed = client.list(labelSelector=_selector(metric))
        items = await self._items(listed, client, "external")
        return [_value(item) for item in items]

    def _client(self, version: GroupVersion, resource: str, namespace: str) -> ResourceClient:
        return self._context.resource(str(version), resource, namespace=namespace)

    async def _items(
        self, read: Awaitable[Tree], client: ResourceClient, api: str
    ) -> Sequence[Tree]:
        """Return the items of a list of metrics, which is not empty. Raises MetricsError."""
        try:
            items: Sequence[Tree] = (await read).get("items") or ()
        except StatusError as error:
            problem = self._missing_api(client) or str(error)
            raise MetricsError(
                f"unable to fetch metrics from {api} metrics API: {problem}"
            ) from error
        if not items:
            raise MetricsError(f"no metrics returned from {api} metrics API")
        return items

    def _missing_api(self, client: ResourceClient) -> str:
        """Return what Kubernetes' clients say if nobody serves an API of metrics, or ""."""
        version, server = client.version, self._context.server
        if server.scheme.has_group(version.group) or server.api_services.server_of(version):
            return ""
        if version == _CUSTOM_METRICS:
            return f"no custom metrics API ({version.group}) registered"
        resource = f"{client.name}.{version.group}"
        return f"the server could not find the requested resource (get {resource})"


def _selector(metric: Tree) -> str:
    return selector_text(metric.get("selector"))


def _value(item: Tree) -> int:
    return _milli(item["value"])


def _timestamp(item: Tree) -> float:
    return seconds_of(item.get("timestamp")) or 0.0


def _usage(pod_metrics: Tree, resource: str, container: str) -> int | None:
    """Return what a pod, or one of its containers, uses of a resource; None if that is not known
    of each container."""
    total = 0
    containers = pod_metrics.get("containers") or ()
    counted = [
        container_metrics
        for container_metrics in containers
        if container in ("", container_metrics.get("name"))
    ]
    for measured in counted:
        usage = (measured.get("usage") or {}).get(resource)
        if usage is None:
            return None
        total += _milli(usage)
    return total if counted else None


def _milli(quantity: str) -> int:
    return parse(quantity).scaled(-3)
