"""kwok's objects that let simulated pods use the machine of the server."""

from __future__ import annotations

from msgspec import Struct

from kapiserver.api.accessors import name_of, namespace_of
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.streaming.local_kubelet import PodTarget
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.pod_rules import find_entry

_NOT_FOUND = 404


class HostRule(Struct, frozen=True):
    """A kind of kwok and its form of the cluster.

    resource    the plural of both; the second one begins with `cluster`
    field       the list of a spec
    names       the field of an entry that says what it is for
    """

    kind: str
    resource: str
    field: str
    names: str = "containers"

    async def entry(self, target: PodTarget, name: str | int) -> Tree | None:
        """Return the entry for a container or a port of a pod, or None."""
        pod, version = target.pod, str(KWOK)
        own = target.client.resource(version, self.resource, namespace=namespace_of(pod)).shared
        cluster = target.client.resource(version, f"cluster{self.resource}").shared
        return find_entry(
            await _object(own, name_of(pod)),
            await _objects(cluster),
            self.field,
            pod,
            name,
            names=self.names,
        )


LOGS_RULE = HostRule("Logs", "logs", "logs")
EXEC_RULE = HostRule("Exec", "execs", "execs")
ATTACH_RULE = HostRule("Attach", "attaches", "attaches")
PORT_FORWARD_RULE = HostRule("PortForward", "portforwards", "forwards", "ports")


async def _object(resource: ResourceClient, name: str) -> Tree | None:
    try:
        return await resource.get(name)
    except StatusError as error:
        if error.code == _NOT_FOUND:  # the object, or the definition of its kind
            return None
        raise


async def _objects(resource: ResourceClient) -> list[Tree]:
    try:
        listed: list[Tree] = (await resource.list())["items"]
    except StatusError as error:
        if error.code == _NOT_FOUND:
            return []
        raise
    return listed
