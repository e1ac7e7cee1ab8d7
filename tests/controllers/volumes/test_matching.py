"""Which volume fits a claim."""

from __future__ import annotations

import pytest

from kapiserver.controllers.volumes.matching import best_volume, mismatch, smallest_volume
from tests.controllers.volumes.storage import a_claim, a_volume, reference

MANY = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]
ZONE = "topology.kubernetes.io/zone"


class Node:
    """What the scheduler passes."""

    name = "one"
    labels = {ZONE: "a"}


def in_zone(*zones):
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def name_of(volume):
    return volume and volume["metadata"]["name"]


@pytest.mark.parametrize(
    ("claim", "volumes", "expected"),
    [
        (a_claim(), [], None),
        (a_claim(), [a_volume("big", "9Gi"), a_volume("small", "2Gi")], "small"),
        (a_claim(), [a_volume("b"), a_volume("a")], "a"),
        (a_claim(), [a_volume(size="1023Mi")], None),
        (a_claim(size="1024Mi"), [a_volume(size="1Gi")], "disk"),
        (a_claim(), [a_volume(class_="fast")], None),
        (a_claim(class_="fast"), [a_volume(class_="fast")], "disk"),
        (
            a_claim(annotations={"volume.beta.kubernetes.io/storage-class": "fast"}),
            [a_volume(class_="fast")],
            "disk",
        ),
        (a_claim(accessModes=["ReadWriteMany"]), [a_volume()], None),
        (a_claim(), [a_volume("many", accessModes=MANY), a_volume("one", "5Gi")], "one"),
        (a_claim(volumeMode="Block"), [a_volume()], None),
        (a_claim(volumeMode="Block"), [a_volume(volumeMode="Block")], "disk"),
        (a_claim(volumeAttributesClassName="gold"), [a_volume()], None),
        (
            a_claim(volumeAttributesClassName="gold"),
            [a_volume(volumeAttributesClassName="gold")],
            "disk",
        ),
        (a_claim(selector={"matchLabels": {"tier": "ssd"}}), [a_volume()], None),
        (
            a_claim(selector={"matchLabels": {"tier": "ssd"}}),
            [a_volume("hdd"), a_volume("ssd", labels={"tier": "ssd"})],
            "ssd",
        ),
        (a_claim(), [a_volume(phase="Pending")], None),
        (a_claim(), [a_volume(phase="Released", claimRef=reference("other"))], None),
        # Reserved volumes come first, whatever their class and phase.
        (a_claim(), [a_volume(), a_volume("mine", "5Gi", claimRef=reference())], "mine"),
        (a_claim(), [a_volume(class_="fast", claimRef=reference(uid=None))], "disk"),
        (a_claim(), [a_volume(claimRef=reference(uid="another"))], None),
        (a_claim(size="9Gi"), [a_volume(claimRef=reference())], None),
    ],
)
def test_best_volume(claim, volumes, expected):
    assert name_of(best_volume(claim, volumes, delayed=False)) == expected


def test_a_volume_that_is_being_deleted():
    volume = a_volume()
    volume["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert best_volume(a_claim(), [volume], delayed=False) is None
    assert mismatch(volume, a_claim()) == 'the volume is marked for deletion "disk"'


def test_delayed_binding():
    """The binder leaves free volumes to the scheduler, but binds reserved ones."""
    assert best_volume(a_claim(), [a_volume()], delayed=True) is None
    mine = a_volume(claimRef=reference())
    assert best_volume(a_claim(), [mine], delayed=True) is mine


@pytest.mark.parametrize(
    ("volumes", "excluded", "expected"),
    [
        ([a_volume()], (), "disk"),
        ([a_volume()], ("disk",), None),
        ([a_volume(nodeAffinity=in_zone("b"))], (), None),
        ([a_volume(nodeAffinity=in_zone("b", "a"))], (), "disk"),
        ([a_volume("far", claimRef=reference(), nodeAffinity=in_zone("b")), a_volume()], (), None),
        ([a_volume("near", claimRef=reference(), nodeAffinity=in_zone("a"))], (), "near"),
    ],
)
def test_volumes_of_a_node(volumes, excluded, expected):
    """A claim whose reserved volume is elsewhere gets no other one."""
    volume = smallest_volume(a_claim(), volumes, node=Node(), excluded=excluded, delayed=True)
    assert name_of(volume) == expected


@pytest.mark.parametrize(
    ("claim", "volume", "expected"),
    [
        (a_claim(), a_volume(), ""),
        (a_claim(size="2Gi"), a_volume(), "requested PV is too small"),
        (a_claim(class_="fast"), a_volume(), "storageClassName does not match"),
        (
            a_claim(volumeAttributesClassName="gold"),
            a_volume(),
            "volumeAttributesClassName does not match",
        ),
        (a_claim(volumeMode="Block"), a_volume(), "incompatible volumeMode"),
        (a_claim(accessModes=MANY), a_volume(), "incompatible accessMode"),
        (a_claim(selector={"matchLabels": {"a": "b"}}), a_volume(), ""),
    ],
)
def test_mismatches(claim, volume, expected):
    assert mismatch(volume, claim) == expected
