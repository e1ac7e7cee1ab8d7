"""The groups of metrics that a simulated cluster serves, as metrics-server and adapters of
monitoring systems do in others."""

from __future__ import annotations

from kapiserver.api.groups import CUSTOM_METRICS, EXTERNAL_METRICS, METRICS
from kapiserver.api.lazy import Lazy, lazy
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import ComputedGroup, ReadComputed, Server
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo


def _loaded_by(load: Lazy[ReadComputed]) -> ReadComputed:
    """Return the reader of a group whose module is imported when the group is first read."""

    async def read(server: Server, info: RequestInfo, query: Query) -> Tree:
        reader = await server.offloader.load(load)
        return await reader(server, info, query)

    return read


METRICS_GROUPS = (
    ComputedGroup(
        group=METRICS,
        read=_loaded_by(
            lazy("kapiserver.simulation.metrics.resource_metrics:read_resource_metrics")
        ),
    ),
    ComputedGroup(
        group=CUSTOM_METRICS,
        read=_loaded_by(lazy("kapiserver.simulation.metrics.custom_metrics:read_custom_metrics")),
    ),
    ComputedGroup(
        group=EXTERNAL_METRICS,
        read=_loaded_by(
            lazy("kapiserver.simulation.metrics.external_metrics:read_external_metrics")
        ),
    ),
)
