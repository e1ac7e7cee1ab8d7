"""The kubelets of simulated nodes, stopped and started by a test: `server.nodes.stop("node-1")`.

A kubelet that is stopped neither renews the Lease of its node nor reports anything about the node
and its pods, as if the machine were lost. The controllers of nodes notice it when the clock has
moved by the grace period, 50 seconds; the pods are evicted after 5 more minutes. The annotation
`simulation.kapiserver.dev/stopped` of the node says the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapiserver.api.resource_client import ResourceClient
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import STOPPED, UNHEALTHY
from kapiserver.simulation.node_conditions import CONDITIONS, unhealthy_conditions
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

_NOT_SIMULATED = "this server does not simulate nodes; start it with simulate=True"


class Nodes(Subject):
    """The nodes of one server. Every method raises StatusError if there is no such node, and
    RuntimeError if the server does not simulate."""

    def __init__(self, loop: ServerLoop, settle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(loop)
        self._settle = settle

    @on_server_loop
    async def stop_async(self, name: str) -> None:
        """Stop the kubelet of a node. Idempotent."""
        await self._annotate(name, STOPPED, "true")

    stop = synchronous(stop_async)

    @on_server_loop
    async def start_async(self, name: str) -> None:
        """Start the kubelet of a node again: it reports that the node is ready, and lets the pods
        go on that it still has. Idempotent."""
        await self._annotate(name, STOPPED, None)

    start = synchronous(start_async)

    @on_server_loop
    async def set_healthy_async(
        self, name: str, healthy: bool, *, condition: str = "Ready"
    ) -> None:
        """Let the kubelet of a node report a condition as healthy or not: Ready, MemoryPressure,
        DiskPressure or PIDPressure. Raises ValueError for another one."""
        if condition not in CONDITIONS:
            raise ValueError(f"the condition is one of {', '.join(CONDITIONS)}, not {condition!r}")
        node = await self._nodes.get(name)
        unhealthy = {*unhealthy_conditions(node), condition} - ({condition} if healthy else set())
        await self._annotate(name, UNHEALTHY, " ".join(sorted(unhealthy)) or None)

    set_healthy = synchronous(set_healthy_async)

    @property
    def _nodes(self) -> ResourceClient:
        if not self._server.config.simulation.simulate:
            raise RuntimeError(_NOT_SIMULATED)
        client = self._server.client(APISERVER, user_agent="kapiserver-test", authorize=False)
        return client.resource("v1", "nodes")

    async def _annotate(self, name: str, annotation: str, value: str | None) -> None:
        await self._nodes.patch(name, {"metadata": {"annotations": {annotation: value}}})
        await self._settle()
