"""Every version of every served kind round-trips through its hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.accessors import value_at
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.groups import GROUPS
from kapiserver.api.releases import OLDEST_MINOR, versions_served_again
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from tests.trees import filled, objects

SCHEME = Scheme(release=OLDEST_MINOR)
"""Has every version that some release serves, as far as there are types."""


def converted() -> Iterator[GroupVersionKind]:
    """Kinds in versions whose hub is another type."""
    for group in SCHEME.groups:
        for resource in SCHEME.resources(group.name):
            for version in sorted(versions_served_again(resource, OLDEST_MINOR)):
                if resource.stored:
                    yield GroupVersionKind(group.name, version, resource.kind)
    for group in GROUPS:
        for version in group.group_versions:
            for kind in SCHEME.kinds(version):
                hub = SCHEME.hub_version(group.name, kind.__name__)
                if SCHEME.type_of(hub.with_kind(kind.__name__)) is not kind:
                    yield version.with_kind(kind.__name__)


PAIRS = [kind for kind in converted() if kind.group != "autoscaling"]


def _with_basic(tree: Tree) -> None:
    # The hub always has `basic`.
    for device in value_at(tree, "spec", "devices") or ():
        device.setdefault("basic", {})


def _with_signer(tree: Tree) -> None:
    # The hub requires `signerName`.
    spec = {"request": tree["spec"].pop("request"), "signerName": "a.b/c", **tree["spec"]}
    tree["spec"] = spec


def _with_shares(tree: Tree) -> None:
    # No shares would add an annotation, as the default has set them before.
    limited = value_at(tree, "spec", "limited")
    if limited is not None:
        limited["nominalConcurrencyShares"] = limited.get("nominalConcurrencyShares") or 1


COMPLETED: dict[str, Callable[[Tree], None]] = {
    "resource.k8s.io/v1beta1, Kind=ResourceSlice": _with_basic,
    "certificates.k8s.io/v1beta1, Kind=CertificateSigningRequest": _with_signer,
    "flowcontrol.apiserver.k8s.io/v1beta3, Kind=PriorityLevelConfiguration": _with_shares,
}
"""Fields that the hub requires and a version may omit."""


def _goes_round(tree: Tree, kind: GroupVersionKind) -> None:
    COMPLETED.get(str(kind), lambda _: None)(tree)
    old_text = json.dumps(tree)
    hub = SCHEME.hub_version(kind.group, kind.kind)
    hub_object = SCHEME.convert(tree, hub)
    round_trip = SCHEME.convert(hub_object, kind.group_version)
    assert json.dumps(round_trip) == old_text == json.dumps(tree)


@pytest.mark.parametrize("kind", PAIRS, ids=str)
@settings(max_examples=12)
@given(data=st.data())
def test_any_object(kind: GroupVersionKind, data: st.DataObject) -> None:
    """An object of any version is unchanged after conversion to the hub and back, with the order of
    its keys."""
    _goes_round(data.draw(objects(SCHEME, kind)), kind)


@pytest.mark.parametrize("kind", PAIRS, ids=str)
def test_whole_objects(kind: GroupVersionKind) -> None:
    """An object with all fields set is unchanged after conversion to the hub and back."""
    head = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
    _goes_round({**head, **filled(SCHEME.type_of(kind))}, kind)


DIFFERENCES: list[tuple[str, str, Tree, Tree]] = [
    (
        "events.k8s.io/v1",
        "Event",
        {"regarding": {"name": "p"}, "note": "n", "deprecatedCount": 3, "reportingController": "c"},
        {"involvedObject": {"name": "p"}, "message": "n", "count": 3, "reportingComponent": "c"},
    ),
    (
        "resource.k8s.io/v1beta1",
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c", "count": 2}]}}},
        {
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}]
                }
            }
        },
    ),
    (
        "resource.k8s.io/v1beta1",
        "ResourceSlice",
        {"spec": {"nodeName": "n", "devices": [{"name": "d", "basic": {"allNodes": True}}]}},
        {"spec": {"nodeName": "n", "devices": [{"name": "d", "allNodes": True}]}},
    ),
    (
        "certificates.k8s.io/v1",
        "PodCertificateRequest",
        {"spec": {"podName": "p"}},
        {"spec": {"podName": "p", "pkixPublicKey": None, "proofOfPossession": None}},
    ),
]


@pytest.mark.parametrize(("version", "kind", "fields", "expected"), DIFFERENCES)
def test_differences(version: str, kind: str, fields: Tree, expected: Tree) -> None:
    """Fields with different names in two versions correspond to each other."""
    head = {"kind": kind, "apiVersion": version, "metadata": {"name": "x"}}
    group_version = GroupVersion.parse(version)
    hub_object = SCHEME.convert({**head, **fields}, SCHEME.hub_version(group_version.group, kind))
    assert _within(expected, hub_object), hub_object


def _within(subset: object, tree: object) -> bool:
    if isinstance(subset, dict) and isinstance(tree, dict):
        return all(name in tree and _within(value, tree[name]) for name, value in subset.items())
    if isinstance(subset, list) and isinstance(tree, list):
        return len(subset) == len(tree) and all(map(_within, subset, tree))
    return subset == tree
