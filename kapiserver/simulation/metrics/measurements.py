"""What the pods of simulated nodes use at one time, by their annotations and kwok's objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kapiserver.api.accessors import annotations_of, name_of, namespace_of
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.simulation.annotations import STOPPED
from kapiserver.simulation.containers import is_running
from kapiserver.simulation.kwok.expressions import Surroundings
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.resource_usage import ResourceUsages
from kapiserver.simulation.metrics.usage import Usage, container_usage
from kapiserver.simulation.node_objects import SIMULATED


@dataclass(frozen=True)
class Measurements:
    """The nodes with a simulated kubelet by name, and what says what their pods use."""

    nodes: Mapping[str, Tree]
    usages: ResourceUsages

    def of_pod(self, pod: Tree) -> dict[str, Usage]:
        """Return what the running containers of a pod use, by name; nothing if no simulated kubelet
        runs on its node."""
        node = self.nodes.get(node_of(pod))
        if node is None:
            return {}
        return {
            container["name"]: container_usage(
                pod, container, self.usages.amounts(node, pod, container)
            )
            for container in _running_containers(pod)
        }


async def measure(server: Server) -> Measurements:
    """Read what is needed to measure. The kinds of kwok need not be there."""
    nodes = await list_objects(server, "v1", "nodes", labels=f"{SIMULATED}=true")
    of_pods = await list_objects(server, str(KWOK), "resourceusages")
    of_cluster = await list_objects(server, str(KWOK), "clusterresourceusages")
    usages = ResourceUsages(
        {(namespace_of(pod_usage), name_of(pod_usage)): pod_usage for pod_usage in of_pods},
        of_cluster,
        Surroundings(now=server.clock.now()),
    )
    running = (node for node in nodes if annotations_of(node).get(STOPPED) != "true")
    return Measurements({name_of(node): node for node in running}, usages)


async def list_objects(
    server: Server, version: str, resource: str, *, labels: str = "", fields: str = ""
) -> Sequence[Tree]:
    """Return the objects of a resource that selectors select; none if it is not served."""
    client = server.client(APISERVER, authorize=False).resource(version, resource)
    try:
        listed = await client.shared.list(labelSelector=labels, fieldSelector=fields)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
        return ()
    return listed["items"]  # type: ignore[no-any-return]


def _running_containers(pod: Tree) -> Iterator[Tree]:
    """Yield the containers, sidecars and init containers of a pod that run."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for specs, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        running = {
            container_status.get("name")
            for container_status in status.get(statuses) or ()
            if is_running(container_status)
        }
        yield from (
            container for container in spec.get(specs) or () if container.get("name") in running
        )
