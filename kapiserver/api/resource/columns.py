"""Table columns of the resource group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    Age,
    CellReader,
    Column,
    Columns,
    age_of,
    number,
    text,
)
from kapiserver.api.types import Tree


def _state(claim: Tree) -> str:
    allocated = value_at(claim, "status", "allocation") is not None
    states = ["deleted"] if is_terminating(claim) else []
    if allocated:
        states.append("allocated")
        if value_at(claim, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def _sum(field: str) -> CellReader:
    def cell(request: Tree) -> str:
        pools = value_at(request, "status", "pools")
        if value_at(request, "status") is None:
            return "-"
        return str(sum(pool.get(field) or 0 for pool in pools or ()))

    return cell


def _errors(request: Tree) -> str:
    if value_at(request, "status") is None:
        return "-"
    pools = value_at(request, "status", "pools") or ()
    return str(sum(bool(pool.get("validationError")) for pool in pools))


def _final_condition(request: Tree) -> Tree:
    for condition in value_at(request, "status", "conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return dict(condition)
    return {}


def _request_status(request: Tree) -> str:
    state = _final_condition(request).get("type") or "Pending"
    reported_pools = len(value_at(request, "status", "pools") or ())
    total = value_at(request, "status", "poolCount") or 0
    return (
        f"{state} ({reported_pools}/{total} pools)"
        if state == "Complete" and reported_pools < total
        else state
    )


def _completed(request: Tree) -> str | Age:
    condition = _final_condition(request)
    return (
        age_of(condition.get("lastTransitionTime")) if condition.get("type") == "Complete" else NONE
    )


def _time_added(rule: Tree) -> str | Age:
    time_added = value_at(rule, "spec", "taint", "timeAdded")
    return age_of(time_added) if time_added else ""


COLUMNS: dict[str, Columns] = {
    "DeviceClass": Columns((NAME, AGE)),
    "DeviceTaintRule": Columns(
        (
            NAME,
            Column("Key", text("spec", "taint", "key"), "Key of the taint."),
            Column("Value", text("spec", "taint", "value"), "Value of the taint."),
            Column(
                "Effect", text("spec", "taint", "effect"), "Effect of the taint on claims and pods."
            ),
            Column("TimeAdded", _time_added, "Time since the taint was added."),
            AGE,
        )
    ),
    "ResourceClaim": Columns(
        (NAME, Column("State", _state, "Whether the claim is allocated and reserved."), AGE)
    ),
    "ResourceClaimTemplate": Columns((NAME, AGE)),
    "ResourcePoolStatusRequest": Columns(
        (
            NAME,
            Column("Driver", text("spec", "driver"), "Driver of the pools."),
            Column("Total", _sum("totalDevices"), "Number of devices in the pools."),
            Column(
                "Available", _sum("availableDevices"), "Number of devices that can be allocated."
            ),
            Column("Allocated", _sum("allocatedDevices"), "Number of devices that are allocated."),
            Column(
                "Unavailable",
                _sum("unavailableDevices"),
                "Number of devices that cannot be allocated.",
            ),
            Column("Errors", _errors, "Number of pools with validation errors."),
            Column("Pools", number("status", "poolCount"), "Number of pools.", type="integer"),
            Column("Status", _request_status, "State of the request."),
            Column("Completed", _completed, "Time since the request was completed."),
        )
    ),
    "ResourceSlice": Columns(
        (
            NAME,
            Column("Node", text("spec", "nodeName"), "Node that can access the devices."),
            Column("Driver", text("spec", "driver"), "Driver that publishes the devices."),
            Column("Pool", text("spec", "pool", "name"), "Pool that the devices belong to."),
            AGE,
        )
    ),
}
