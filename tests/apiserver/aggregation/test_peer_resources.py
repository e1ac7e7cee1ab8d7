"""What peers serve: which versions are left out, and how discovery of several servers merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.peers.merged_groups import merge_groups, merge_order
from kapiserver.apiserver.peers.peer_resources import (
    GRACE_SECONDS,
    ExcludedVersions,
    peer_resources,
    without_versions,
)


def group(name: str, **versions: Sequence[Any]) -> Any:
    """A group of aggregated discovery: resources are names, or whole trees."""
    return {
        "metadata": {"name": name},
        "versions": [
            {
                "version": version,
                "resources": [
                    {"resource": each, "verbs": ["get"]} if isinstance(each, str) else each
                    for each in resources
                ],
                "freshness": "Current",
            }
            for version, resources in versions.items()
        ],
    }


@pytest.mark.parametrize(
    ("lists", "order"),
    [
        ([], []),
        (["abc", "bc"], "abc"),
        (["ac", "bc"], "abc"),
        (["bca", "b"], "bca"),
        (["bd", "ad", "ce"], "abcde"),
        (["zb", "za"], "zab"),
        (["abc", "cd", "ba"], "abcd"),
        (["abx", "bay"], "abxy"),
    ],
)
def test_merge_order(lists: list[str], order: str) -> None:
    """Names keep the order of each list, and are sorted where lists contradict or say nothing."""
    assert list(merge_order(lists)) == list(order)


def test_merged_groups() -> None:
    """The merged groups are the union, whatever server merges them; a resource that differs gets
    the verbs and the subresources of both."""
    scale = {"subresource": "scale", "verbs": ["get"]}
    status = {"subresource": "status", "verbs": ["get"]}
    pods = {"resource": "pods", "verbs": ["list", "get"], "subresources": [status]}
    more = {"resource": "pods", "verbs": ["watch"], "subresources": [scale]}
    first = [group("a", v1=[pods, "x"]), group("c", v1=["y"])]
    second = [group("a", v1=[more, "x"], v1beta1=["z"]), group("b", v1=["w"]), group("c", v1=["y"])]
    merged_pods = {
        "resource": "pods",
        "verbs": ["get", "list", "watch"],
        "subresources": [scale, status],
    }
    merged = [
        group("a", v1=[merged_pods, "x"], v1beta1=["z"]),
        group("b", v1=["w"]),
        group("c", v1=["y"]),
    ]
    assert merge_groups({"s1": first, "s2": second}) == merged
    assert merge_groups({"s1": first}) == first
    assert merge_groups({"s1": first, "s2": first}) == first


def test_stale_group_of_a_peer() -> None:
    """A version whose resources are not known has none, and loses none of another server."""
    stale = {"metadata": {"name": "a"}, "versions": [{"version": "v1", "freshness": "Stale"}]}
    assert merge_groups({"s1": [stale], "s2": [stale]}) == [stale]
    fresh = [group("a", v1=["x"])]
    assert merge_groups({"s1": fresh, "s2": [stale]}) == fresh


def test_peer_resources() -> None:
    """Discovery says what a peer serves; the core group is no group to show."""
    core = group("", v1=["pods"]) | {"metadata": {}}
    peer = peer_resources([{"items": [core]}, {"items": [group("a", v1=["x"], v2=["x"])]}])
    versions = (GroupVersion("", "v1"), GroupVersion("a", "v1"), GroupVersion("a", "v2"))
    assert peer.resources == set(zip(versions, ("pods", "x", "x"), strict=True))
    assert list(peer.groups) == [group("a", v1=["x"], v2=["x"])]
    left = without_versions(peer, {GroupVersion("a", "v2")})
    assert left.groups == [group("a", v1=["x"])]
    assert len(left.resources) == 2
    assert without_versions(peer, {GroupVersion("b", "v1")}) is peer
    assert without_versions(left, {GroupVersion("a", "v1")}).groups == []


def test_excluded_versions() -> None:
    """Versions that every server has are left out, and for a while after they are gone."""
    first, second = GroupVersion("a.example.com", "v1"), GroupVersion("b.example.com", "v1")
    excluded = ExcludedVersions()
    excluded.replace({first, second}, 0)
    assert excluded.at(1000) == {first, second}
    excluded.replace({second}, 1000)
    assert excluded.at(1000 + GRACE_SECONDS) == {first, second}
    assert excluded.at(1001 + GRACE_SECONDS) == {second}
