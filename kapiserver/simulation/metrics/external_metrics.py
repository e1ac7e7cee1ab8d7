"""external.metrics.k8s.io: metrics that are not of Kubernetes objects, which ConfigMaps say.

A ConfigMap with the label `simulation.kapiserver.dev/external-metrics: "true"` holds values: a key
of its data is the name of a metric, the value a quantity. Its other labels are those of its
metrics, which the selector of an autoscaler selects.
"""

from __future__ import annotations

from kapiserver.api.accessors import labels_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import UnknownResource
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.metrics.custom_metrics import value_of
from kapiserver.storage.objects.lifecycle import timestamp

EXTERNAL = f"{PREFIX}external-metrics"
"""The label of ConfigMaps that hold values of external metrics."""


async def read_external_metrics(server: Server, info: RequestInfo, query: Query) -> Tree:
    """Return the values of a metric in a namespace. Raises UnknownResource, BadObject."""
    if info.is_item or not info.namespace:
        raise UnknownResource
    selectors = [f"{EXTERNAL}=true", *filter(None, query.get("labelSelector") or ())]
    client = server.client(APISERVER, authorize=False)
    config_maps = client.resource("v1", "configmaps", namespace=info.namespace).shared
    now, metric = timestamp(server.clock.now()), info.resource
    items = []
    for item in (await config_maps.list(labelSelector=",".join(selectors)))["items"]:
        value = value_of((item.get("data") or {}).get(metric))
        if value is None:
            continue
        items.append(
            {
                "kind": "ExternalMetricValue",
                "apiVersion": str(info.version),
                "metricName": metric,
                "metricLabels": _labels(item),
                "timestamp": now,
                "value": value,
            }
        )
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": str(info.version),
        "metadata": {},
        "items": items,
    }


def _labels(config_map: Tree) -> dict[str, str]:
    return {name: value for name, value in labels_of(config_map).items() if name != EXTERNAL}
