"""CPU time and memory of a server's process, from its /metrics.

Every Go and Python program that uses Prometheus' client libraries has these metrics. With several
servers behind one address the figures of two of them are mixed, which shows as a negative
difference, or as a start time that changes; then there are no figures.
"""

from __future__ import annotations

import re

from kapiserver.api.resource_client import StatusError
from kapiserver.client import Client, Resource

FAILURES = (StatusError, *Resource.transport_errors)
"""What a request of a client may raise."""
_METRIC = re.compile(
    r"^(process_(?:cpu_seconds_total|resident_memory_bytes|start_time_seconds)) (\S+)", re.MULTILINE
)


class ServerProcess:
    """The process that answers a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self) -> dict[str, float]:
        """Return the metrics by name; empty if they cannot be read."""
        try:
            answer = await self._client.call("GET", "/metrics")
        except FAILURES:
            return {}
        return {name: float(value) for name, value in _METRIC.findall(answer.get("message", ""))}

    async def cpu_seconds(self) -> tuple[float, float] | None:
        """Return when the process started and its CPU time so far."""
        metrics = await self.read()
        if "process_cpu_seconds_total" not in metrics:
            return None
        start = metrics.get("process_start_time_seconds", 0.0)
        return start, metrics["process_cpu_seconds_total"]

    async def cpu_since(self, earlier: tuple[float, float] | None) -> float | None:
        """Return the CPU time since a result of `cpu_seconds`; None if it was another process."""
        now = await self.cpu_seconds()
        if earlier is None or now is None or now[0] != earlier[0]:
            return None
        return now[1] - earlier[1] if now[1] >= earlier[1] else None
