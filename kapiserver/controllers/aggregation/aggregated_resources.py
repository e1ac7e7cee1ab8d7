"""The resources of extension API servers, for controllers that work on objects of every kind.

Mirrors ServerPreferredResources of client-go's discovery client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import APIService, APIServices


class AggregatedKind(Resource, frozen=True, kw_only=True):
    """A resource whose objects an extension API server has, in its preferred version."""


class AggregatedResources(Struct, frozen=True):
    """The preferred version of each resource, and the group-versions whose resources are unknown
    because the extension API server does not answer."""

    resources: Sequence[AggregatedKind]
    failed: Sequence[GroupVersion]


def aggregated_resources(api_services: APIServices) -> AggregatedResources:
    """Return the resources of all APIServices that name a Service. The one version of each is its
    storage version, too."""
    resources: dict[tuple[str, str], AggregatedKind] = {}
    failed: list[GroupVersion] = []
    for api_service in sorted(api_services.remote.values(), key=_precedence):
        discovery = api_services.discovery.get(api_service.name)
        if discovery is None or not api_service.is_available:
            failed.append(api_service.version)
            continue
        for resource in _resources(api_service.version, discovery):
            resources.setdefault((resource.group, resource.name), resource)
    return AggregatedResources(tuple(resources.values()), tuple(failed))


def _precedence(api_service: APIService) -> tuple[str, int, str]:
    group, version = api_service.version
    return group, -api_service.version_priority, version


def _resources(version: GroupVersion, discovery: Tree) -> Iterator[AggregatedKind]:
    for resource in discovery.get("resources") or ():
        yield AggregatedKind(
            group=version.group,
            name=resource.get("resource") or "",
            kind=(resource.get("responseKind") or {}).get("kind") or "",
            namespaced=resource.get("scope") == "Namespaced",
            versions=(version.version,),
            storage_version=version.version,
            verbs=tuple(resource.get("verbs") or ()),
            stored=False,
        )
