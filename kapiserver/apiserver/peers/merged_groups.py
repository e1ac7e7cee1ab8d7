"""Merges what several servers show in aggregated discovery: the union, in an order that all agree
with. Pure.

Servers count in the order of their identities: what the first one says of a group, a version or a
resource is kept, and the others add to it. So every server of a store shows the same document.
Mirrors peer_aggregated_handler.go of k8s.io/apiserver, and MergePreservingRelativeOrder.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kapiserver.api.types import Tree

_Merge: TypeAlias = Callable[[Tree, Tree], Tree]


def merge_groups(groups: Mapping[str, Sequence[Tree]]) -> Sequence[Tree]:
    """Return the groups of all servers, which are given by the servers' identities."""
    merged: Sequence[Tree] = ()
    lists = [groups[identity] for identity in sorted(groups)]
    for group_list in lists:
        merged = _merge_lists(merged, group_list, _group_name, _merge_group)
    by_name = {_group_name(group): group for group in merged}
    return [
        by_name[name]
        for name in merge_order([[*map(_group_name, group_list)] for group_list in lists])
    ]


def merge_order(lists: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the names of all lists, each before those that follow it in a list, otherwise in
    alphabetical order. Lists that contradict each other are sorted."""
    followers: dict[str, set[str]] = {name: set() for names in lists for name in names}
    for names in lists:
        if len(names) == len(followers) == len(set(names)):
            return names
    for names in lists:
        for name, follower in itertools.pairwise(names):
            followers[name].add(follower)
    waits_for = Counter(name for follower in followers.values() for name in follower)
    free = [name for name in followers if not waits_for[name]]
    heapq.heapify(free)
    ordered = []
    while free:
        name = heapq.heappop(free)
        ordered.append(name)
        for follower in followers[name]:
            waits_for[follower] -= 1
            if not waits_for[follower]:
                heapq.heappush(free, follower)
    return ordered if len(ordered) == len(followers) else sorted(followers)


def _merge_lists(
    first: Sequence[Tree], second: Sequence[Tree], name_of: Callable[[Tree], str], merge: _Merge
) -> Sequence[Tree]:
    """Return the items of two lists; those of both are merged."""
    items = {name_of(version): version for version in first}
    for version in second:
        name = name_of(version)
        items[name] = merge(items[name], version) if name in items else version
    order = merge_order([[*map(name_of, first)], [*map(name_of, second)]])
    return [items[name] for name in order]


def _merge_group(first: Tree, second: Tree) -> Tree:
    versions = _merge_lists(first["versions"], second["versions"], _version_name, _merge_version)
    return first | {"versions": versions}


def _merge_version(first: Tree, second: Tree) -> Tree:
    """Return a version with the resources of both. An extension API server that cannot be reached
    has none."""
    resources = _merge_lists(
        first.get("resources") or (), second.get("resources") or (), _resource_name, _merge_resource
    )
    return first | ({"resources": resources} if resources else {})


def _merge_resource(first: Tree, second: Tree) -> Tree:
    """Return a resource with the verbs and subresources of both, sorted if they differ."""
    if first == second:
        return first
    verbs = sorted({*first["verbs"], *second["verbs"]})
    subresources = {
        subresource["subresource"]: subresource
        for resource in (first, second)
        for subresource in resource.get("subresources") or ()
    }
    merged = first | {"verbs": verbs}
    if subresources:
        merged["subresources"] = [subresources[name] for name in sorted(subresources)]
    return merged


def _group_name(group: Tree) -> str:
    name: str = group["metadata"]["name"]
    return name


def _version_name(version: Tree) -> str:
    name: str = version["version"]
    return name


def _resource_name(resource: Tree) -> str:
    name: str = resource["resource"]
    return name
