"""The pages of metrics of simulated nodes, which kwok's kind Metric describes.

A page is served at its path, such as `/metrics/nodes/{nodeName}/metrics/resource`. It is what
Prometheus scrapes in place of a kubelet.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kapiserver.api.accessors import name_of, namespace_of, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.serving.metrics.text import text_of
from kapiserver.codecs.cost import LARGE
from kapiserver.simulation.kwok.expressions import Surroundings
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.metric_families import families_of
from kapiserver.simulation.metrics.measurements import Measurements, list_objects, measure
from kapiserver.simulation.metrics.usage import in_units

_ROOT = "/metrics/"
_NODE_NAME = "{nodeName}"
_MANY_VALUES = 500
"""A page of more values is evaluated in a thread."""
_MAX_TOTALS = 65536


class _Total(NamedTuple):
    value: float
    time: float


class Totals:
    """What was used in all, in units times seconds, since each total was first asked for; those
    that were asked for last."""

    def __init__(self) -> None:
        self._totals: OrderedDict[Hashable, _Total] = OrderedDict()

    def add(self, key: Hashable, used: float, now: float) -> float:
        """Return the total of a key after the time since the last call, in which as much was used
        as now."""
        last = self._totals.pop(key, None) or _Total(0.0, now)
        total = _Total(last.value + used * max(now - last.time, 0.0), now)
        self._totals[key] = total
        if len(self._totals) > _MAX_TOTALS:
            self._totals.popitem(last=False)
        return total.value


class NodePages:
    """The pages of the nodes of one server."""

    def __init__(self) -> None:
        self._totals = Totals()

    async def text(self, server: Server, path: str) -> AsyncIterator[bytes] | None:
        """Return the text of the page at a path; None if there is no page, or no such node."""
        for metric in await list_objects(server, str(KWOK), "metrics"):
            name = node_name(metric, path)
            if name is None:
                continue
            measurements = await measure(server)
            node = measurements.nodes.get(name)
            if node is None:
                return None
            pods = await list_objects(server, "v1", "pods", fields=f"spec.nodeName={name}")
            now = server.clock.now()
            known = _NodeKnowledge(node, pods, measurements, self._totals, now)
            values = len(metric["spec"].get("metrics") or ()) * max(len(pods), 1)
            families = await server.offloader.run(
                LARGE if values > _MANY_VALUES else 0,
                families_of, metric, node, pods, known.surroundings,
            )  # fmt: skip
            return text_of(families)
        return None


def node_name(metric: Tree, path: str) -> str | None:
    """Return the node of a page at a path; None if the path is not that of the metric. A path
    without a name of a node is about the node with the name of the metric."""
    template = value_at(metric, "spec", "path") or ""
    if not template.startswith(_ROOT):
        return None
    before, variable, after = template.partition(_NODE_NAME)
    pattern = re.escape(before) + ("([^/]+)" if variable else "") + re.escape(after)
    match = re.fullmatch(pattern, path)
    if match is None:
        return None
    return match[1] if variable else name_of(metric)


@dataclass(frozen=True)
class _NodeKnowledge:
    """What expressions may ask about a node and its pods."""

    node: Tree
    pods: Sequence[Tree]
    measurements: Measurements
    totals: Totals
    now: float

    @property
    def surroundings(self) -> Surroundings:
        """The functions of expressions."""
        return Surroundings(
            now=self.now,
            usage=self._usage,
            cumulative_usage=self._total_usage,
            started_containers=self._started_containers,
        )

    def _usage(self, obj: Tree, resource: str, container: str) -> float:
        """Return what a node, a pod or one container uses."""
        return sum(
            in_units(usage, resource)
            for pod in self._pods_of(obj)
            for name, usage in self.measurements.of_pod(pod).items()
            if container in ("", name)
        )

    def _total_usage(self, obj: Tree, resource: str, container: str) -> float:
        """Return what has been used; that of a pod is the sum of its containers."""
        if not namespace_of(obj):
            used = self._usage(obj, resource, container)
            return self.totals.add((uid_of(obj), resource), used, self.now)
        return sum(
            self.totals.add((uid_of(pod), name, resource), in_units(usage, resource), self.now)
            for pod in self._pods_of(obj)
            for name, usage in self.measurements.of_pod(pod).items()
            if container in ("", name)
        )

    def _pods_of(self, obj: Tree) -> Sequence[Tree]:
        """Return the pods of a node, or a pod as the API has it."""
        if not namespace_of(obj):
            return self.pods
        return [pod for pod in self.pods if uid_of(pod) == uid_of(obj)]

    def _started_containers(self, node: str) -> int:
        """Return how many containers the pods of the node have started; 0 for another node."""
        if node != name_of(self.node):
            return 0
        return sum(
            (status.get("restartCount") or 0) + 1
            for pod in self.pods
            for field in ("initContainerStatuses", "containerStatuses")
            for status in value_at(pod, "status", field) or ()
            if status.get("containerID")
        )
