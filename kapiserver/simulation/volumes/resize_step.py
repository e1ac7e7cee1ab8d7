"""The expansion of a simulated volume: the next step of a claim that asks for more.

    claim                       step
    asks for more               ControllerResizeInProgress, the condition Resizing
    in progress                 the volume gets its new size, unless an annotation says why not
    the volume is larger        a block device, or one that a pod uses: the claim has the new size
                                a file system that no pod uses: the condition
                                FileSystemResizePending, until a pod starts

The objects are the only state. Mirrors the external-resizer of CSI, and NodeExpandVolume of
pkg/volume/util/operationexecutor.
"""

from __future__ import annotations

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.matching import (
    capacity_of,
    current_size,
    is_in_bound_phase,
    requested_size,
    volume_mode,
)
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.simulation.annotations import PREFIX
from kapiserver.storage.objects.lifecycle import timestamp

ERROR = f"{PREFIX}resizing-error"
"""The annotation of a claim that says why its volume cannot be expanded."""
_RESIZE_CONDITIONS = ("Resizing", "FileSystemResizePending")
_PENDING = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."


class ResizeStep(Struct, frozen=True):
    """The volume and the claim as they should be, None if they stay, and an event about the
    claim."""

    volume: Tree | None = None
    claim: Tree | None = None
    event: PlannedEvent | None = None


def resize_step(claim: Tree, volume: Tree, now: float, *, is_used: bool) -> ResizeStep:
    """Return the next step of an expansion, an empty one if there is nothing to do.

    is_used  whether a pod that runs uses the claim
    """
    if not is_in_bound_phase(claim) or requested_size(claim) <= current_size(claim):
        return ResizeStep()
    if capacity_of(volume) < requested_size(claim):
        return _in_controller(claim, volume, now)
    if volume_mode(volume) == "Block":
        event = PlannedEvent("VolumeResizeSuccessful", "Resize volume succeeded")
        return ResizeStep(claim=_resized(claim, volume), event=event)
    if is_used:
        message = f'MountVolume.NodeExpandVolume succeeded for volume "{name_of(volume)}" '
        event = PlannedEvent("FileSystemResizeSuccessful", message)
        return ResizeStep(claim=_resized(claim, volume), event=event)
    if _state_of(claim) == "NodeResizePending":
        return ResizeStep()
    message = "Require file system resize of volume on node"
    waiting = _resizing(claim, "NodeResizePending", _RESIZE_CONDITIONS[1], now, _PENDING)
    return ResizeStep(claim=waiting, event=PlannedEvent("FileSystemResizeRequired", message))


def _in_controller(claim: Tree, volume: Tree, now: float) -> ResizeStep:
    """Return the step of a volume that is still too small."""
    size = value_at(claim, "spec", "resources", "requests", "storage")
    allocated = value_at(claim, "status", "allocatedResources", "storage")
    if _state_of(claim) != "ControllerResizeInProgress" or allocated != size:
        message = f"External resizer is resizing volume {name_of(volume)}"
        asking = _resizing(claim, "ControllerResizeInProgress", _RESIZE_CONDITIONS[0], now)
        return ResizeStep(claim=asking, event=PlannedEvent("Resizing", message))
    error = annotations_of(claim).get(ERROR)
    if error:
        driver = value_at(volume, "spec", "csi", "driver") or ""
        message = f'resize volume "{name_of(volume)}" by resizer "{driver}" failed: {error}'
        return ResizeStep(event=PlannedEvent("VolumeResizeFailed", message, "Warning"))
    return ResizeStep(volume | {"spec": volume["spec"] | {"capacity": {"storage": size}}})


def _state_of(claim: Tree) -> str:
    return value_at(claim, "status", "allocatedResourceStatuses", "storage") or ""


def _resizing(claim: Tree, state: str, condition: str, now: float, message: str = "") -> Tree:
    """Return a claim whose expansion is in a state, with the condition that tells it."""
    present = value_at(claim, "status", "conditions") or []
    others = [condition for condition in present if condition.get("type") not in _RESIZE_CONDITIONS]
    time = timestamp(now)
    condition_tree = find_condition(present, condition) or {
        "type": condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": time,
        **({"message": message} if message else {}),
    }  # fmt: skip
    size = value_at(claim, "spec", "resources", "requests", "storage")
    status = claim["status"] | {
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": state},
        "conditions": [*others, condition_tree],
    }
    return claim | {"status": status}


def _resized(claim: Tree, volume: Tree) -> Tree:
    """Return a claim that has the size of its volume."""
    status = {
        name: value
        for name, value in claim["status"].items()
        if name not in ("allocatedResourceStatuses", "conditions")
    }
    present = value_at(claim, "status", "conditions") or ()
    others = [condition for condition in present if condition.get("type") not in _RESIZE_CONDITIONS]
    status |= {"capacity": value_at(volume, "spec", "capacity")}
    return claim | {"status": status | ({"conditions": others} if others else {})}
