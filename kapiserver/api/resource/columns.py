"""The tables of the resource group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import AGE, NAME, NONE, CellOf, Column, Columns, number, since, text
from kapiserver.api.objects import is_terminating, value_at
from kapiserver.api.types import Tree


def _state(claim: Tree, _: datetime) -> str:
    allocated = value_at(claim, "status", "allocation") is not None
    states = ["deleted"] if is_terminating(claim) else []
    if allocated:
        states.append("allocated")
        if value_at(claim, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def _sum(field: str) -> CellOf:
    def cell(request: Tree, _: datetime) -> str:
        pools = value_at(request, "status", "pools")
        if value_at(request, "status") is None:
            return "-"
        return str(sum(pool.get(field) or 0 for pool in pools or ()))

    return cell


def _errors(request: Tree, _: datetime) -> str:
    if value_at(request, "status") is None:
        return "-"
    pools = value_at(request, "status", "pools") or ()
    return str(sum(bool(pool.get("validationError")) for pool in pools))


def _ended(request: Tree) -> Tree:
    for one in value_at(request, "status", "conditions") or ():
        if one.get("type") in ("Complete", "Failed") and one.get("status") == "True":
            return dict(one)
    return {}


def _request_status(request: Tree, _: datetime) -> str:
    end = _ended(request).get("type") or "Pending"
    shown = len(value_at(request, "status", "pools") or ())
    total = value_at(request, "status", "poolCount") or 0
    return f"{end} ({shown}/{total} pools)" if end == "Complete" and shown < total else end


def _completed(request: Tree, now: datetime) -> str:
    end = _ended(request)
    return since(end.get("lastTransitionTime"), now) if end.get("type") == "Complete" else NONE


def _added(rule: Tree, now: datetime) -> str:
    found = value_at(rule, "spec", "taint", "timeAdded")
    return since(found, now) if found else ""


COLUMNS: dict[str, Columns] = {
    "DeviceClass": Columns((NAME, AGE)),
    "DeviceTaintRule": Columns(
        (
            NAME,
            Column("Key", text("spec", "taint", "key"), "What the taint is about."),
            Column("Value", text("spec", "taint", "value"), "Its value."),
            Column("Effect", text("spec", "taint", "effect"), "What it does."),
            Column("TimeAdded", _added, "Since when."),
            AGE,
        )
    ),
    "ResourceClaim": Columns((NAME, Column("State", _state, "Whether it got devices."), AGE)),
    "ResourceClaimTemplate": Columns((NAME, AGE)),
    "ResourcePoolStatusRequest": Columns(
        (
            NAME,
            Column("Driver", text("spec", "driver"), "The driver."),
            Column("Total", _sum("totalDevices"), "All devices."),
            Column("Available", _sum("availableDevices"), "Those that are free."),
            Column("Allocated", _sum("allocatedDevices"), "Those that are taken."),
            Column("Unavailable", _sum("unavailableDevices"), "Those that cannot be used."),
            Column("Errors", _errors, "Pools that are not well formed."),
            Column("Pools", number("status", "poolCount"), "All pools.", type="integer"),
            Column("Status", _request_status, "How far it has come."),
            Column("Completed", _completed, "Since when."),
        )
    ),
    "ResourceSlice": Columns(
        (
            NAME,
            Column("Node", text("spec", "nodeName"), "The node that has the devices."),
            Column("Driver", text("spec", "driver"), "Whose devices these are."),
            Column("Pool", text("spec", "pool", "name"), "The pool they are in."),
            AGE,
        )
    ),
}
