"""The resources of the external metrics group in discovery. Imports no types.

Discovery lists one resource that stands for all; the resource of a request is the name of the
metric.
"""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="external.metrics.k8s.io",
        name="externalmetrics",
        kind="ExternalMetricValueList",
        namespaced=True,
        versions=("v1beta1",),
        storage_version="v1beta1",
        verbs=("get",),
        stored=False,
    ),
)
