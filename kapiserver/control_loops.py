"""What runs in a cluster besides its requests: authenticators, informers and controllers.

`serve` of `app.py` runs them for a cluster on ports, `clusters/` for each logical cluster that is
open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

from kapiserver.apiserver.allocation.repair import AllocationRepair
from kapiserver.apiserver.authorizer import ManagedAuthorizer
from kapiserver.apiserver.health import LOOP_HOOKS, RBAC_HOOK, REPAIR_HOOK
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import Cluster
from kapiserver.controllers.loop.context import SigningAuthority
from kapiserver.controllers.loop.controller import AnyController
from kapiserver.controllers.manager import ControllerManager
from kapiserver.storage.errors import StorageError

Loop: TypeAlias = ControllerManager | AllocationRepair | AnyController
"""What the caller of the functions below stops."""


async def start_access(cluster: Cluster, stack: AsyncExitStack) -> None:
    """Start the parts that read the store to decide on requests; the stack stops them. Raises
    StorageError."""
    client = cluster.server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
    cluster.authentication.start(client)
    stack.push_async_callback(cluster.authentication.stop)
    authorizer = cluster.server.authorizer
    if isinstance(authorizer, ManagedAuthorizer):
        await authorizer.start()
        stack.push_async_callback(authorizer.stop)
    await cluster.server.custom_resources.start()
    stack.callback(cluster.server.custom_resources.stop)
    await cluster.server.api_services.start()
    stack.callback(cluster.server.api_services.stop)
    flow_control = cluster.server.flow_control
    if flow_control is not None:
        flow_control.start()
        stack.callback(flow_control.stop)


async def start_controllers(
    cluster: Cluster,
    *,
    has_policy: bool = False,
    is_first_worker: bool = True,
    ca_text: str = "",
    signing_ca: SigningAuthority | None = None,
) -> ControllerManager:
    """Start the controllers, and return their manager, which the caller stops.

    has_policy      whether the store has RBAC's bootstrap policy, which is not created then
    is_first_worker whether the process is the only one or the first worker of its server
    ca_text         PEM of the CA that signs the server's certificate; "" without HTTPS
    signing_ca      the CA of the cluster; None if it has none

    Raises StorageError, StatusError.
    """
    with contextlib.suppress(StorageError):  # a paged list tries again
        await cluster.server.stores.load_token_codec()  # saves the key before the disk may be full
    manager = ControllerManager(
        cluster.server,
        ca_text=ca_text,
        signing_ca=signing_ca,
        registry=cluster.controllers,
        has_policy=has_policy,
        is_first_worker=is_first_worker,
    )
    await manager.start()
    cluster.server.health.finish(*LOOP_HOOKS, RBAC_HOOK)
    return manager


def start_repair(cluster: Cluster) -> AllocationRepair:
    """Start what frees the addresses and ports that no Service has, and return it; the caller stops
    it."""
    repair = AllocationRepair(cluster.server)
    repair.start()
    cluster.server.health.finish(REPAIR_HOOK)
    return repair


async def stop_together(loops: Sequence[Loop]) -> None:
    """Stop all loops at the same time, so that none goes on working while another one ends."""
    await asyncio.gather(*(loop.stop() for loop in loops))
