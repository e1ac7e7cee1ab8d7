"""RBAC: an update that would create the object needs the right to create it."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kapiserver.api.accessors import resource_version_of
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.apiserver.context import Server
from tests.apiserver.authorization.rbackit import (
    JANE,
    binding,
    create,
    resource_rule,
    role,
    run,
    subject,
)

pytestmark = pytest.mark.usefixtures("no_errors")

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
MESSAGE = (
    'leases.coordination.k8s.io "a" is forbidden: User "jane" cannot create resource "leases" in '
    'API group "coordination.k8s.io" in the namespace "default"'
)


async def grant(server: Server, verbs: str) -> None:
    """Let jane do this to Leases."""
    name = verbs.replace(" ", "-")
    rule = resource_rule(verbs, "coordination.k8s.io", "leases")
    await create(server, "clusterroles", role(name, rule))
    bound = binding(name, "ClusterRole", name, subject("User", "jane"))
    await create(server, "clusterrolebindings", bound)


def lease(**spec: Any) -> dict[str, Any]:
    """A Lease without a version."""
    return {**LEASE, "metadata": dict(LEASE["metadata"]), "spec": spec}


async def put(leases: ResourceClient, **spec: Any) -> None:
    new = lease(**spec)
    with contextlib.suppress(StatusError):
        new["metadata"]["resourceVersion"] = resource_version_of(await leases.get("a"))
    await leases.update(new)


async def apply(leases: ResourceClient, **spec: Any) -> None:
    await leases.apply(lease(**spec), manager="jane", force=1)


@pytest.mark.parametrize("write", [put, apply])
def test_creation_by_an_update(write: Callable[..., Awaitable[None]]) -> None:
    """Who may only update or patch creates nothing, and may change what is there."""

    async def test(server: Server) -> None:
        await grant(server, "get update patch")
        leases = server.client(JANE).resource(
            "coordination.k8s.io/v1", "leases", namespace="default"
        )
        with pytest.raises(StatusError) as refused:
            await write(leases, leaseDurationSeconds=1)
        assert (refused.value.code, str(refused.value)) == (403, MESSAGE)
        await grant(server, "create")
        await write(leases, leaseDurationSeconds=1)
        await write(leases, leaseDurationSeconds=2)

    run(test)


@pytest.mark.parametrize("write", [put, apply])
def test_update_without_the_right_to_create(write: Callable[..., Awaitable[None]]) -> None:
    """An update of an object that exists needs no right to create it."""

    async def test(server: Server) -> None:
        await grant(server, "get update patch")
        own = server.client(JANE, authorize=False)
        await own.resource("coordination.k8s.io/v1", "leases", namespace="default").create(
            lease(leaseDurationSeconds=1)
        )
        leases = server.client(JANE).resource(
            "coordination.k8s.io/v1", "leases", namespace="default"
        )
        await write(leases, leaseDurationSeconds=2)

    run(test)
