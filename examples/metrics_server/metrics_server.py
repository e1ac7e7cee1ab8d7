"""A metrics server: `kubectl top nodes` and `kubectl top pods` for the kubelets of a cluster.

    python metrics_server.py node-1=http://127.0.0.1:10255/metrics/resource node-2=...

Each page has the counters of one node in Prometheus' text format, as kubelets serve them at
/metrics/resource. Usage of CPU is the difference of two readings. Behind a cluster, an APIService
v1beta1.metrics.k8s.io names the Service of this server; HorizontalPodAutoscalers ask it, too.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from kapiserver.extension import ApiServer, Object, ObjectMeta, ObjectSource, Resource

MAX_AGE_SECONDS = 10.0
"""Pages are read again after this time."""
FIRST_SECONDS = 1.0
"""The time between the first two readings."""
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)(?: (\d+))?")
LABEL = re.compile(r'(\w+)="([^"]*)"')
CPU, MEMORY = "cpu_usage_seconds_total", "memory_working_set_bytes"


class NodeMetrics(Object):
    """What a node uses of its resources."""

    timestamp: str
    window: str
    usage: dict[str, str]


class ContainerMetrics(Struct):
    """What one container uses."""

    name: str
    usage: dict[str, str]


class PodMetrics(Object):
    """What the containers of a pod use of their resources."""

    timestamp: str
    window: str
    containers: list[ContainerMetrics]


class Sample(Struct, frozen=True):
    """The counters of a node or a container: seconds of CPU, and bytes; `at` is in seconds."""

    at: float
    cpu: float = 0.0
    memory: float = 0.0


Key = tuple[str, str, str]
"""Namespace, pod and container; three times "" for the node itself."""
NODE: Key = ("", "", "")


def parse(page: str, now: float) -> dict[Key, Sample]:
    """Return the counters of a page."""
    samples: dict[Key, Sample] = {}
    for line in page.splitlines():
        match = SAMPLE.fullmatch(line)
        if match is None:
            continue
        name, labels, value, milliseconds = match.groups()
        scope, _, counter = name.partition("_")
        of = dict(LABEL.findall(labels or ""))
        if scope not in ("node", "container") or counter not in (CPU, MEMORY):
            continue
        key = (of.get("namespace", ""), of.get("pod", ""), of.get("container", ""))
        sample = samples.get(key) or Sample(int(milliseconds) / 1000 if milliseconds else now)
        cpu, memory = (
            (float(value), sample.memory) if counter == CPU else (sample.cpu, float(value))
        )
        samples[key] = Sample(sample.at, cpu, memory)
    return samples


class Usage(Struct, frozen=True):
    """What was used between two samples."""

    timestamp: str
    window: str
    resources: dict[str, str]


def usage_between(old: Sample, new: Sample) -> Usage | None:
    """Return the usage between two samples; None if the counter was reset, or nothing passed."""
    seconds = new.at - old.at
    if seconds <= 0 or new.cpu < old.cpu:
        return None
    nanocores = int((new.cpu - old.cpu) / seconds * 1e9)
    return Usage(
        datetime.fromtimestamp(new.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{seconds:.3f}s",
        {"cpu": f"{nanocores}n", "memory": f"{int(new.memory) // 1024}Ki"},
    )


class Pages:
    """The newest two readings of the page of each node."""

    def __init__(self, urls: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        self._urls = urls
        self._clock = clock
        self._readings: dict[str, tuple[dict[Key, Sample], dict[Key, Sample]]] = {}
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def usages(self) -> dict[tuple[str, Key], Usage]:
        """Return the usage of all nodes and containers, by node."""
        async with self._reading:
            if self._clock() - self._read_at >= self._max_age():
                self._read_at = self._clock()
                await asyncio.gather(*(self._read(node) for node in self._urls))
        return {
            (node, key): usage
            for node, (old, new) in self._readings.items()
            for key, sample in new.items()
            if key in old and (usage := usage_between(old[key], sample)) is not None
        }

    def _max_age(self) -> float:
        """Return how old readings may be; less while some page was read only once."""
        is_complete = all(old for old, _ in self._readings.values())
        return MAX_AGE_SECONDS if self._readings and is_complete else FIRST_SECONDS

    async def _read(self, node: str) -> None:
        try:
            page = await asyncio.to_thread(_fetch, self._urls[node])
        except OSError as error:
            sys.stderr.write(f"{node}: {error}\n")
            self._readings.pop(node, None)
            return
        old = self._readings.get(node, ({}, {}))[1]
        self._readings[node] = (old, parse(page, self._clock()))


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


class Nodes(ObjectSource[NodeMetrics]):
    """NodeMetrics of all nodes."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def list(self) -> Iterable[NodeMetrics]:
        usages = await self._pages.usages()
        return [
            NodeMetrics(
                metadata=ObjectMeta(name=node),
                timestamp=usage.timestamp,
                window=usage.window,
                usage=usage.resources,
            )
            for (node, key), usage in usages.items()
            if key == NODE
        ]


class Pods(ObjectSource[PodMetrics]):
    """PodMetrics of all pods."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def list(self) -> Iterable[PodMetrics]:
        pods: dict[tuple[str, str], PodMetrics] = {}
        for (_, key), usage in (await self._pages.usages()).items():
            namespace, name, container = key
            if key == NODE:
                continue
            pod = pods.setdefault(
                (namespace, name),
                PodMetrics(
                    metadata=ObjectMeta(name=name, namespace=namespace),
                    timestamp=usage.timestamp,
                    window=usage.window,
                    containers=[],
                ),
            )
            pod.containers.append(ContainerMetrics(name=container, usage=usage.resources))
        return pods.values()


def api_server(pages: Pages) -> ApiServer:
    """Return the API server of metrics.k8s.io."""
    group, version = "metrics.k8s.io", "v1beta1"
    nodes = Resource(
        NodeMetrics, group=group, version=version, plural="nodes", namespaced=False,
        source=Nodes(pages),
    )  # fmt: skip
    pods = Resource(PodMetrics, group=group, version=version, plural="pods", source=Pods(pages))
    return ApiServer([nodes, pods])


if __name__ == "__main__":
    nodes = [each for each in sys.argv[1:] if re.match(r"[\w.-]+=http", each)]
    flags = [each for each in sys.argv[1:] if each not in nodes]
    sys.exit(api_server(Pages(dict(each.split("=", 1) for each in nodes))).main(flags))
