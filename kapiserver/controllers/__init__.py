"""Loops that keep promises of the API server itself, driven by watches; they poll nothing.

To add one: a module here, a name in `chosen_controllers.py` and a line below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kapiserver.apiserver.context import Server
from kapiserver.controllers.api_services import APIServices
from kapiserver.controllers.bootstrap import create_system_namespaces
from kapiserver.controllers.crd_status import Definitions
from kapiserver.controllers.disruption import Disruption
from kapiserver.controllers.endpoints import (
    endpoints_of_pods,
    slices_of_endpoints,
    slices_of_pods,
)
from kapiserver.controllers.flow_control import FlowControlDefaults
from kapiserver.controllers.garbage_collector import GarbageCollector
from kapiserver.controllers.leader import Leader
from kapiserver.controllers.manager import Everything, Loop
from kapiserver.controllers.namespace_defaults import NamespaceDefaults
from kapiserver.controllers.namespace_deletion import NamespaceDeletion
from kapiserver.controllers.registry import chosen
from kapiserver.controllers.resource_quotas import ResourceQuotas
from kapiserver.controllers.service_cidrs import ServiceCIDRs
from kapiserver.controllers.storage_protection import (
    claim_protection,
    class_protection,
    volume_protection,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """All that run in one server."""

    definitions: Definitions
    api_services: APIServices
    namespace_defaults: NamespaceDefaults
    flow_control: FlowControlDefaults
    everything: Everything | None
    leader: Leader | None

    async def stop(self) -> None:
        """End them, wherever they are: who starts again looks again."""
        await self.definitions.stop()
        await self.api_services.stop()
        await self.flow_control.stop()
        await self.namespace_defaults.stop()
        if self.leader is not None:
            await self.leader.stop()
        elif self.everything is not None:
            await self.everything.stop()


async def start_controllers(server: Server, *, ca_text: str) -> Controllers:
    """Make what must be there before the first request, and start the loops.

    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS
    """
    on = chosen(server.config.controllers)
    definitions = Definitions(server)
    definitions.start()
    api_services = APIServices(server)
    api_services.start()
    await create_system_namespaces(server)
    namespace_defaults = NamespaceDefaults(
        server,
        accounts="serviceaccount-controller" in on,
        ca_text=ca_text if "root-ca-certificate-publisher-controller" in on else "",
    )
    await namespace_defaults.start()
    flow_control = FlowControlDefaults(server)
    flow_control.start()
    everything = _everything(server, on)
    leader = None
    if everything is not None and server.stores.kv.shared:
        leader = Leader(server, start=everything.start, stop=everything.stop)
        leader.start()
    elif everything is not None:
        await everything.start()
    return Controllers(
        definitions=definitions,
        api_services=api_services,
        flow_control=flow_control,
        namespace_defaults=namespace_defaults,
        everything=everything,
        leader=leader,
    )


def _everything(server: Server, on: frozenset[str]) -> Everything | None:
    loops: dict[str, Callable[[Server], Loop]] = {
        "disruption-controller": Disruption,
        "endpoints-controller": endpoints_of_pods,
        "endpointslice-controller": slices_of_pods,
        "endpointslice-mirroring-controller": slices_of_endpoints,
        "garbage-collector-controller": GarbageCollector,
        "namespace-controller": NamespaceDeletion,
        "persistentvolume-protection-controller": volume_protection,
        "persistentvolumeclaim-protection-controller": claim_protection,
        "resourcequota-controller": ResourceQuotas,
        "service-cidr-controller": ServiceCIDRs,
        "volumeattributesclass-protection-controller": class_protection,
    }
    wanted = [make for name, make in loops.items() if name in on]
    return Everything(server, wanted) if wanted else None
