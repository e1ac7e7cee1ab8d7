"""Installs CustomResourceDefinitions in a test server."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.resource_client import Client, ResourceClient
from kapiserver.api.types import Tree
from kapiserver.testing.existing_cluster import ExistingCluster
from kapiserver.testing.manifests import Source, read_manifests
from kapiserver.testing.server import TestServer

KIND = "CustomResourceDefinition"


def install_definitions(server: TestServer | ExistingCluster, *sources: Source) -> list[Tree]:
    """Apply the definitions in the sources and return them when all are established, so that their
    resources are served. Objects of other kinds are left out. Raises OSError, ValueError for a
    malformed file or if there is no definition, and StatusError for an invalid one."""
    definitions = [tree for tree in read_manifests(sources) if tree["kind"] == KIND]
    if not definitions:
        raise ValueError(f"no {KIND} in {', '.join(map(str, sources)) or 'no sources'}")
    return server.run(_install(server.internal_client(), definitions))


async def _install(client: Client, definitions: Sequence[Tree]) -> list[Tree]:
    resource = client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
    for definition in definitions:
        await resource.apply(definition, manager="kapiserver-testing", force="true")
    return [await _established(resource, tree["metadata"]["name"]) for tree in definitions]


async def _established(resource: ResourceClient, name: str) -> Tree:
    """Return the definition when it is established. Raises ValueError if its names conflict."""
    async for event in resource.follow(fieldSelector=f"metadata.name={name}"):
        conditions = (event.object.get("status") or {}).get("conditions") or []
        states = {condition["type"]: condition for condition in conditions}
        if states.get("Established", {}).get("status") == "True":
            return event.object
        if states.get("NamesAccepted", {}).get("status") == "False":
            raise ValueError(f"{name}: {states['NamesAccepted']['message']}")
    raise AssertionError("follow never ends")
