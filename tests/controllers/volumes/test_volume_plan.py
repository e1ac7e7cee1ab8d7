"""What the binder does about a volume."""

from __future__ import annotations

import pytest

from kapiserver.controllers.volumes.volume_plan import VolumeState, plan_volume
from tests.controllers.volumes.storage import (
    BY_CONTROLLER,
    a_bound_claim,
    a_claim,
    a_volume,
    reference,
)

CSI = {"driver": "disk.example.com", "volumeHandle": "1"}
PROVISIONED = {"pv.kubernetes.io/provisioned-by": "disk.example.com"}


def plan(volume, claim=None, **state):
    return plan_volume(VolumeState(volume=volume, claim=claim, **state))


def phase_of(plan):
    return plan.volume["status"]["phase"]


def released(policy, **fields):
    fields = {"phase": "Released", "claimRef": reference()} | fields
    return a_volume(persistentVolumeReclaimPolicy=policy, **fields)


@pytest.mark.parametrize(
    ("volume", "claim", "phase"),
    [
        (a_volume(phase="Pending"), None, "Available"),
        (a_volume(phase="Pending", claimRef=reference(uid=None)), a_claim(), "Available"),
        (a_volume(claimRef=reference()), a_bound_claim("disk"), "Bound"),
        (a_volume(phase="Bound", claimRef=reference()), None, "Released"),
        (a_volume(phase="Bound", claimRef=reference(uid="old")), a_claim(), "Released"),
        (a_volume(phase="Failed", claimRef=reference()), None, "Failed"),
    ],
)
def test_phases(volume, claim, phase):
    result = plan(volume, claim)
    assert phase_of(result) == phase
    assert (result.event, result.is_deleted, result.binds_claim) == (None, False, False)
    assert plan(result.volume, claim).volume == result.volume


def test_message_of_a_phase():
    """The message of a failure goes with the phase."""
    failed = a_volume(phase="Failed", claimRef=reference())
    failed["status"]["message"] = "no"
    assert plan(failed, a_bound_claim("disk")).volume["status"] == {"phase": "Bound"}


def test_a_claim_that_is_not_bound_yet():
    result = plan(a_volume(phase="Bound", claimRef=reference()), a_claim())
    assert result.binds_claim


def test_incompatible_mode():
    """Both get an event, and the claim is not bound."""
    result = plan(a_volume(claimRef=reference(), volumeMode="Block"), a_claim())
    assert not result.binds_claim
    assert (result.event.reason, result.event.message) == (
        "VolumeMismatch",
        'Cannot bind PersistentVolume to requested PersistentVolumeClaim "data" due to '
        "incompatible volumeMode.",
    )
    assert (result.claim_event.reason, result.claim_event.message) == (
        "VolumeMismatch",
        'Cannot bind PersistentVolume "disk" to requested PersistentVolumeClaim due to '
        "incompatible volumeMode.",
    )


@pytest.mark.parametrize(
    ("annotations", "claim_ref", "left"),
    [
        (BY_CONTROLLER, None, None),
        (BY_CONTROLLER | {"a": "b"}, None, {"a": "b"}),
        (None, reference(uid=None), None),
    ],
)
def test_a_claim_that_is_bound_elsewhere(annotations, claim_ref, left):
    """What the controller bound is free again; what a user reserved stays reserved."""
    volume = a_volume(phase="Bound", annotations=annotations, claimRef=reference())
    result = plan(volume, a_bound_claim("another"))
    assert phase_of(result) == "Available"
    assert result.volume["spec"].get("claimRef") == claim_ref
    assert result.volume["metadata"].get("annotations") == left


def test_a_provisioned_volume_that_is_not_needed():
    """The claim was bound elsewhere while the volume was made for it."""
    volume = a_volume(
        annotations=PROVISIONED | BY_CONTROLLER,
        claimRef=reference(),
        csi=CSI,
        persistentVolumeReclaimPolicy="Delete",
    )
    assert phase_of(plan(volume, a_bound_claim("another"))) == "Released"


@pytest.mark.parametrize(
    ("volume", "is_deleted", "problem"),
    [
        (released("Retain"), False, ""),
        (released("Delete"), True, ""),
        (released("Delete", csi=CSI), False, ""),
        (released("Delete", annotations=PROVISIONED), False, ""),
        (
            released("Delete", hostPath={"path": "/data"}),
            False,
            "host_path deleter only supports /tmp/.+ but received provided /data",
        ),
        (
            released("Delete", nfs={"server": "s", "path": "/"}),
            False,
            'error getting deleter volume plugin for volume "disk": no deletable volume plugin '
            "matched",
        ),
    ],
)
def test_deletion(volume, is_deleted, problem):
    """The binder deletes what no provisioner deletes, and reports once what nobody can."""
    result = plan(volume)
    assert result.is_deleted is is_deleted
    assert (result.event.message if result.event else "") == problem
    if problem:
        assert result.event.reason == "VolumeFailedDelete"
        assert result.volume["status"] == {"phase": "Failed", "message": problem}
        again = plan(result.volume)
        assert (again.volume, again.event) == (result.volume, None)


@pytest.mark.parametrize("source", [{}, {"nfs": {"server": "s", "path": "/"}}])
def test_recycling(source):
    result = plan(released("Recycle", annotations=BY_CONTROLLER, **source))
    assert (result.event.reason, result.event.message) == ("VolumeRecycled", "Volume recycled")
    assert phase_of(result) == "Available"
    assert "claimRef" not in result.volume["spec"]


def test_recycling_that_fails():
    result = plan(released("Recycle", fc={"wwids": ["1"]}))
    assert (result.event.type, result.event.reason) == ("Warning", "VolumeFailedRecycle")
    assert result.volume["status"] == {
        "phase": "Failed", "message": "No recycler plugin found for the volume!",
    }  # fmt: skip


def test_recycling_of_a_volume_in_use():
    volume = released("Recycle")
    result = plan(volume, users=["shop/web", "shop/db"])
    assert result.volume is volume
    assert (result.event.type, result.event.message) == (
        "Normal", "Volume is used by pods: shop/db,shop/web",
    )  # fmt: skip
    assert phase_of(plan(volume, a_claim() | {"metadata": {"uid": "new"}}, users=["a/b"])) == (
        "Available"
    )
