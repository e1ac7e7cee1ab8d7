"""What a simulated cluster serves of metrics: the groups, and the pages of its nodes.

The groups are those that metrics-server and adapters of monitoring systems serve in other clusters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from kapiserver.api.groups import CUSTOM_METRICS, EXTERNAL_METRICS, METRICS
from kapiserver.api.lazy import Lazy, lazy
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import ComputedGroup, ReadComputed, Server
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo

if TYPE_CHECKING:
    from kapiserver.simulation.metrics.node_pages import NodePages


def _loaded_by(load: Lazy[ReadComputed]) -> ReadComputed:
    """Return the reader of a group whose module is imported when the group is first read."""

    async def read(server: Server, info: RequestInfo, query: Query) -> Tree:
        reader = await server.offloader.load(load)
        return await reader(server, info, query)

    return read


class LazyPages:
    """The pages of nodes, whose module is imported at the first scrape."""

    def __init__(self) -> None:
        self._pages: NodePages | None = None

    async def __call__(self, server: Server, path: str) -> AsyncIterator[bytes] | None:
        """Return the text of the page at a path; None if there is no page."""
        if self._pages is None:
            make = await server.offloader.load(_lazy_pages)
            self._pages = self._pages or make()
        return await self._pages.text(server, path)


_lazy_pages: Lazy[type[NodePages]] = lazy("kapiserver.simulation.metrics.node_pages:NodePages")

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
