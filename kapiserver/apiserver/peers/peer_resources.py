"""Which peers serve which resources, as far as requests for them may be passed on.

The versions of custom resources and of extension API servers are left out, and stay left out for
five minutes after they are gone: every server of the store serves them, or will in a moment, and
what a peer said of them may be old. Mirrors gv_exclusion_manager.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree

GRACE_SECONDS = 300.0
"""How long versions stay left out after they are gone: peers may notice later."""

ServedResource: TypeAlias = tuple[GroupVersion, str]
"""A group-version and the plural name of a resource."""


class PeerResources(Struct, frozen=True):
    """What one peer serves.

    resources   the resources, those of the core group included
    groups      the other groups, as aggregated discovery has them
    """

    resources: frozenset[ServedResource] = frozenset()
    groups: Sequence[Tree] = ()


def peer_resources(documents: Iterable[Tree]) -> PeerResources:
    """Return what the APIGroupDiscoveryLists of a peer say. Raises KeyError, TypeError and
    AttributeError for documents of another form."""
    groups: dict[str, Tree] = {}
    resources = set()
    for document in documents:
        for group in document.get("items") or ():
            name = group["metadata"].get("name") or ""
            for version in group.get("versions") or ():
                for resource in version.get("resources") or ():
                    group_version = GroupVersion(name, version["version"])
                    resources.add((group_version, resource["resource"]))
            if name:
                groups.setdefault(name, group)
    return PeerResources(frozenset(resources), list(groups.values()))


def without_versions(peer: PeerResources, excluded: Set[GroupVersion]) -> PeerResources:
    """Return what a peer serves without some versions."""
    resources = frozenset(resource for resource in peer.resources if resource[0] not in excluded)
    if len(resources) == len(peer.resources):
        return peer
    groups = []
    for group in peer.groups:
        name = group["metadata"]["name"]
        versions = [
            version
            for version in group["versions"]
            if GroupVersion(name, version["version"]) not in excluded
        ]
        if versions:
            groups.append(group | {"versions": versions})
    return PeerResources(resources, groups)


class ExcludedVersions:
    """The versions that are left out: those that every server has, and those that are gone since a
    short time."""

    def __init__(self) -> None:
        self._shared: Set[GroupVersion] = frozenset()
        self._gone: dict[GroupVersion, float] = {}

    def replace(self, shared: Set[GroupVersion], now: float) -> None:
        """Note which versions every server has now."""
        for version in self._shared - shared:
            self._gone[version] = now
        self._shared = shared

    def at(self, now: float) -> Set[GroupVersion]:
        """Return the versions to leave out, and forget those that are gone for long."""
        self._gone = {
            version: since for version, since in self._gone.items() if now - since <= GRACE_SECONDS
        }
        return self._shared | self._gone.keys()
