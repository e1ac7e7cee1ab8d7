"""The resources of the custom metrics group in discovery. Imports no types.

Discovery lists one resource, the metrics of namespaces. The resources of all objects have metrics,
too: a metric is a subresource of them.
"""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="custom.metrics.k8s.io",
        name="metrics",
        kind="MetricValueList",
        namespaced=True,
        versions=("v1beta2", "v1beta1"),
        storage_version="v1beta2",
        verbs=("get",),
        stored=False,
    ),
)
