"""custom.metrics.k8s.io: metrics of any objects, which annotations of these objects say.

`simulation.kapiserver.dev/metric.NAME` of an object is the value of its metric NAME, whatever the
selector of the metric is.

    /namespaces/NS/pods/web-0/NAME            of one object
    /namespaces/NS/pods/*/NAME                of the objects that labelSelector selects
    /namespaces/NS/deployments.apps/web/NAME  of an object of another group
    /nodes/one/NAME                           of an object without a namespace
    /namespaces/NS/metrics/NAME               of the namespace
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import annotations_of, name_of, namespace_of
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.quantity import parse
from kapiserver.api.resource_client import StatusError
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import UnknownResource
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import status
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import PREFIX
from kapiserver.storage.objects.lifecycle import timestamp

METRIC = f"{PREFIX}metric."
"""What begins the name of an annotation with the value of a metric."""


async def read_custom_metrics(server: Server, info: RequestInfo, query: Query) -> Tree:
    """Return the values of a metric. Raises UnknownResource, and StatusError if there is no such
    object or metric, or for a bad selector."""
    name, metric, text, namespace = info.name, info.subresource, info.resource, info.namespace
    if (text, metric) == ("metrics", ""):
        name, metric, text, namespace = namespace, name, "namespaces", ""
    if not name or not metric or info.trailing:
        raise UnknownResource
    resource, version = _resource(server.scheme, text)
    if resource.namespaced != bool(namespace):
        raise UnknownResource
    client = server.client(APISERVER, authorize=False)
    objects = client.resource(str(version), resource.name, namespace=namespace).shared
    if name == "*":
        selector = (query.get("labelSelector") or [""])[0]
        trees = (await objects.list(labelSelector=selector))["items"]
    else:
        trees = [await objects.get(name)]
    items = _values(server, info.version, trees, version.with_kind(resource.kind), metric)
    if not items and name != "*":
        message = f"the server could not find the metric {metric} for {text} {name}"
        raise StatusError(status(code=404, message=message, reason="NotFound"), 404)
    return {
        "kind": "MetricValueList",
        "apiVersion": str(info.version),
        "metadata": {},
        "items": items,
    }


def _resource(scheme: Scheme, text: str) -> tuple[Resource, GroupVersion]:
    """Return the resource of `pods` or `deployments.apps`, and its version. Raises
    UnknownResource."""
    name, _, group = text.partition(".")
    for resource in scheme.resources(group):
        if resource.name == name and (resource.stored or resource.definition):
            return resource, GroupVersion(group, resource.versions[0])
    raise UnknownResource


def _values(
    server: Server,
    version: GroupVersion,
    objects: Sequence[Tree],
    kind: GroupVersionKind,
    metric: str,
) -> list[Tree]:
    """Return a MetricValue of each object that has the metric."""
    now, is_old = timestamp(server.clock.now()), version.version == "v1beta1"
    values = []
    for obj in objects:
        value = value_of(annotations_of(obj).get(f"{METRIC}{metric}"))
        if value is None:
            continue
        named = {"metricName": metric} if is_old else {"metric": {"name": metric}}
        values.append(
            {
                "kind": "MetricValue",
                "apiVersion": str(version),
                "describedObject": _reference(obj, kind),
                **named,
                "timestamp": now,
                "value": value,
            }
        )
    return values


def _reference(obj: Tree, kind: GroupVersionKind) -> Tree:
    namespace = {"namespace": namespace_of(obj)} if namespace_of(obj) else {}
    return {
        "kind": kind.kind,
        **namespace,
        "name": name_of(obj),
        "apiVersion": kind.api_version,
    }


def value_of(text: str | None) -> str | None:
    """Return a value in canonical form; None if there is none, or it cannot be read."""
    if text is None:
        return None
    try:
        return str(parse(text))
    except ValueError:
        return None
