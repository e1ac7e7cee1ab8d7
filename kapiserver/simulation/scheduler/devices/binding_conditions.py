"""Binding conditions of devices: a pod is bound only when a driver has made them true in the status
of its claim, for example after it has attached a device to the node (KEP-5007).

Mirrors isClaimReadyForBinding of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.go_format import quote
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError

TIMEOUT_SECONDS = 600.0
"""How long a pod waits after the allocation (BindingTimeout of DynamicResourcesArgs)."""
FIELDS = ("bindingConditions", "bindingFailureConditions")
"""What an allocation takes over from a device."""


class DeviceBindingError(SchedulingError):
    """A claim needs other devices: one has failed, or was not ready in time."""


def seconds_to_wait(claim: Tree, now: float) -> float | None:
    """Return how long a pod waits at most for the devices of an allocated claim; None if their
    conditions are true. Raises DeviceBindingError."""
    if all(_is_ready(claim, result) for result in _results(claim)):
        return None
    allocated = seconds_of(value_at(claim, "status", "allocation", "allocationTimestamp"))
    seconds = TIMEOUT_SECONDS if allocated is None else allocated + TIMEOUT_SECONDS - now
    if seconds <= 0:
        raise DeviceBindingError(f"device binding timeout: claim={name_of(claim)}")
    return seconds


def _results(claim: Tree) -> Iterator[Tree]:
    """Yield the allocated devices that have binding conditions."""
    for result in value_at(claim, "status", "allocation", "devices", "results") or ():
        if result.get("bindingConditions"):
            yield result


def _is_ready(claim: Tree, result: Tree) -> bool:
    """Report whether the conditions of a device are true. Raises DeviceBindingError if one says
    that it has failed."""
    conditions = _conditions_of(claim, result)
    for kind in result.get("bindingFailureConditions") or ():
        failure = find_condition(conditions, kind)
        if failure is not None and failure.get("status") == "True":
            reason, message = failure.get("reason") or "", quote(failure.get("message") or "")
            raise DeviceBindingError(
                f"device binding failed: claim={name_of(claim)}, reason={reason}, message={message}"
            )
    needed = (find_condition(conditions, kind) for kind in result["bindingConditions"])
    return all(condition is not None and condition.get("status") == "True" for condition in needed)


def _conditions_of(claim: Tree, result: Tree) -> list[Tree]:
    """Return the conditions that a driver reports for an allocated device."""
    identity = ("driver", "pool", "device", "shareID")
    for status in value_at(claim, "status", "devices") or ():
        if all(status.get(name) == result.get(name) for name in identity):
            return list(status.get("conditions") or ())
    return []
