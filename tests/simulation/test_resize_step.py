"""The expansion of simulated volumes, step by step."""

from __future__ import annotations

import pytest

from kapiserver.controllers.volumes.expansion import expansion_event
from kapiserver.simulation.volumes.resize_step import resize_step
from tests.controllers.volumes.storage import a_bound_claim, a_volume, reference

NOW = 1_700_000_000.0
CSI = {"driver": "disk.example.com", "volumeHandle": "1"}
ERROR = "simulation.kapiserver.dev/resizing-error"


def objects(size="2Gi", **fields):
    """A claim that has 1Gi and asks for `size`, and its volume."""
    claim = a_bound_claim("disk", size=size)
    return claim, a_volume(claimRef=reference(), csi=CSI, **fields)


def expand(claim, volume, *, is_used=False):
    """Take steps until nothing is left to do; return both, and the reasons of the events."""
    reasons = []
    for _ in range(10):
        step = resize_step(claim, volume, NOW, is_used=is_used)
        if step.event:
            reasons.append(step.event.reason)
        if step.claim is None and step.volume is None:
            return claim, volume, reasons
        claim, volume = step.claim or claim, step.volume or volume
    raise AssertionError("the expansion does not end")


def sizes(claim, volume):
    return claim["status"]["capacity"]["storage"], volume["spec"]["capacity"]["storage"]


@pytest.mark.parametrize("size", ["1Gi", "512Mi"])
def test_nothing_to_do(size):
    claim, volume = objects(size)
    assert expand(claim, volume) == (claim, volume, [])
    pending = claim | {"status": {"phase": "Pending"}}
    assert expand(pending, volume) == (pending, volume, [])


def test_first_step():
    """The claim says what is in progress before the volume changes."""
    step = resize_step(*objects(), NOW, is_used=True)
    assert step.volume is None
    assert (step.event.reason, step.event.message) == (
        "Resizing", "External resizer is resizing volume disk",
    )  # fmt: skip
    status = step.claim["status"]
    assert status["allocatedResources"] == {"storage": "2Gi"}
    assert status["allocatedResourceStatuses"] == {"storage": "ControllerResizeInProgress"}
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Resizing", "True")


def test_file_system_in_use():
    """The kubelet of a pod that runs expands the file system at once."""
    claim, volume, reasons = expand(*objects(), is_used=True)
    assert sizes(claim, volume) == ("2Gi", "2Gi")
    assert reasons == ["Resizing", "FileSystemResizeSuccessful"]
    assert "conditions" not in claim["status"]
    assert "allocatedResourceStatuses" not in claim["status"]
    assert claim["status"]["allocatedResources"] == {"storage": "2Gi"}


def test_file_system_that_no_pod_uses():
    """The claim waits for a pod, and says so."""
    claim, volume, reasons = expand(*objects())
    assert sizes(claim, volume) == ("1Gi", "2Gi")
    assert reasons == ["Resizing", "FileSystemResizeRequired"]
    assert claim["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizePending"}
    (condition,) = claim["status"]["conditions"]
    assert (condition["type"], condition["message"]) == (
        "FileSystemResizePending",
        "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
    )
    claim, volume, reasons = expand(claim, volume, is_used=True)
    assert sizes(claim, volume) == ("2Gi", "2Gi")
    assert reasons == ["FileSystemResizeSuccessful"]


def test_block_device():
    claim, volume, reasons = expand(*objects(volumeMode="Block"))
    assert sizes(claim, volume) == ("2Gi", "2Gi")
    assert reasons == ["Resizing", "VolumeResizeSuccessful"]


def test_error():
    """The volume stays as it is while the annotation is there."""
    claim, volume = objects()
    claim["metadata"]["annotations"] = claim["metadata"]["annotations"] | {ERROR: "no room"}
    claim, volume, reasons = expand(claim, volume)
    assert sizes(claim, volume) == ("1Gi", "1Gi")
    assert reasons == ["Resizing", "VolumeResizeFailed"]
    step = resize_step(claim, volume, NOW, is_used=False)
    message = 'resize volume "disk" by resizer "disk.example.com" failed: no room'
    assert step.event.message == message


def test_a_request_that_grows_again():
    """The allocated size follows the request."""
    claim, volume = objects()
    claim = resize_step(claim, volume, NOW, is_used=False).claim
    claim = claim | {"spec": claim["spec"] | {"resources": {"requests": {"storage": "3Gi"}}}}
    claim, volume, _ = expand(claim, volume, is_used=True)
    assert sizes(claim, volume) == ("3Gi", "3Gi")


def test_event_of_the_controller():
    claim, volume = objects()
    message = "waiting for an external controller to expand this PVC"
    for event, type_ in (
        (expansion_event(claim, volume), "Normal"),
        (expansion_event(claim, a_volume(claimRef=reference())), "Warning"),
    ):
        assert (event.type, event.reason, event.message) == (type_, "ExternalExpanding", message)
    assert expansion_event(claim, a_volume(claimRef=reference(uid="another"))) is None
    assert expansion_event(*objects("1Gi")) is None
