"""The groups and versions that clients see: those of this server and of extension API servers.

Groups and versions of extension API servers are placed by the priorities of their APIServices; the
groups of this server keep their order. Mirrors SortedByGroupAndVersion of k8s.io/kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kapiserver.api.group import Group, GroupVersion, sort_versions
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import REGISTRATION, APIServices
from kapiserver.apiserver.context import Server


class ServedGroup(Struct, frozen=True):
    """A group and its versions, the preferred one first."""

    name: str
    versions: Sequence[str]

    @property
    def group_versions(self) -> Sequence[GroupVersion]:
        """The versions with the group."""
        return [GroupVersion(self.name, version) for version in self.versions]


def served_groups(server: Server) -> Sequence[Group | ServedGroup]:
    """Return all groups in the order of discovery."""
    if not server.api_services.remote:
        return server.scheme.groups
    return merged_groups(server.scheme.groups, server.api_services)


def merged_groups(
    local: Iterable[Group | ServedGroup], api_services: APIServices
) -> Sequence[Group | ServedGroup]:
    """Return the groups of this server with those of extension API servers among them."""
    remote: dict[str, list[str]] = {}
    for api_service in api_services.remote.values():
        if api_service.version.group not in ("", REGISTRATION.group):
            remote.setdefault(api_service.version.group, []).append(api_service.version.version)
    groups: list[Group | ServedGroup] = [
        _extended(group, remote.pop(group.name), api_services) if group.name in remote else group
        for group in local
    ]
    for name in sorted(remote):
        group = _extended(ServedGroup(name, ()), remote[name], api_services)
        groups.insert(_place(groups, group, api_services), group)
    return groups


def _extended(
    group: Group | ServedGroup, versions: Iterable[str], api_services: APIServices
) -> ServedGroup:
    """Return a group with more versions, sorted by their priorities."""

    def priority(version: str) -> int:
        priorities = api_services.priorities(GroupVersion(group.name, version))
        return -priorities[1] if priorities is not None else 0

    names = sort_versions({*group.versions, *versions})
    return ServedGroup(group.name, sorted(names, key=priority))


def _place(
    groups: Sequence[Group | ServedGroup], group: ServedGroup, api_services: APIServices
) -> int:
    """Return the index of the first group that comes after a new one."""
    own = _group_key(group, api_services)
    for index, other in enumerate(groups):
        key = _group_key(other, api_services)
        if key is not None and own is not None and key > own:
            return index
    return len(groups)


def _group_key(group: Group | ServedGroup, api_services: APIServices) -> tuple[int, str] | None:
    """Return the key to sort a group by; None if it has no APIService."""
    priorities = map(api_services.priorities, group.group_versions)
    priority = max((priority[0] for priority in priorities if priority is not None), default=None)
    return None if priority is None else (-priority, group.name)


def remote_discovery(api_services: APIServices, version: GroupVersion) -> Tree | None:
    """Return a version of an extension API server for aggregated discovery: Stale if its resources
    are not known now. Return None for a version that this server serves."""
    api_service = api_services.server_of(version)
    if api_service is None:
        return None
    discovery = api_services.discovery.get(api_service.name)
    if discovery is None or not api_service.is_available:
        return {"version": version.version, "freshness": "Stale"}
    return discovery | {"freshness": "Current"}
