"""The requests of claims: which devices are wanted, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.quantity import Amount, parse
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.budget import Budget
from kapiserver.simulation.scheduler.devices.slices import Device

_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class DeviceRequest(Struct, frozen=True, kw_only=True):
    """A request, or one of the alternatives of a request.

    name            the name in the result: `REQUEST`, or `REQUEST/ALTERNATIVE`
    parent          the name of the request
    device_class    the DeviceClass
    count           how many devices are wanted; 0: all
    capacity        the wanted capacity, by name
    is_admin        whether devices may be in use, and stay free for others
    """

    name: str
    parent: str
    claim: Tree
    device_class: Tree
    selectors: Sequence[Tree] = ()
    count: int = 1
    tolerations: Sequence[Tree] = ()
    capacity: Mapping[str, Amount] = {}
    is_admin: bool = False

    def selects(self, device: Device, budget: Budget) -> bool:
        """Report whether the selectors of class and request select a device. Raises
        SchedulingError."""
        class_selectors = value_at(self.device_class, "spec", "selectors") or ()
        claim = f"{namespace_of(self.claim)}/{name_of(self.claim)}"
        return all(
            device.matches(
                value_at(selector, "cel", "expression") or "", f"{where}: selector #{index}", budget
            )
            for where, selectors in (
                (f"class {name_of(self.device_class)}", class_selectors),
                (f"claim {claim}", self.selectors),
            )
            for index, selector in enumerate(selectors)
        )

    def tolerates(self, taints: Sequence[Tree]) -> bool:
        """Report whether no taint keeps the request from a device."""
        return all(
            taint.get("effect") not in _BLOCKING_EFFECTS
            or any(_tolerates(toleration, taint) for toleration in self.tolerations)
            for taint in taints
        )


def _tolerates(toleration: Tree, taint: Tree) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")


def class_names(claim: Tree) -> Iterator[tuple[str, str]]:
    """Yield the name of each request and alternative of a claim, and the name of its class."""
    for request in requests_of(claim):
        for name, fields in _alternatives(request):
            yield name, fields.get("deviceClassName") or ""


def requests_of(claim: Tree) -> Sequence[Tree]:
    """Return the requests of a claim."""
    return value_at(claim, "spec", "devices", "requests") or ()


def alternatives_of(claim: Tree, request: Tree, classes: Mapping[str, Tree]) -> list[DeviceRequest]:
    """Return the alternatives of a request, the preferred one first. Raises KeyError if a class
    does not exist."""
    return [
        DeviceRequest(
            name=name,
            parent=request["name"],
            claim=claim,
            device_class=classes[fields.get("deviceClassName") or ""],
            selectors=fields.get("selectors") or (),
            count=0 if fields.get("allocationMode") == "All" else fields.get("count") or 1,
            tolerations=fields.get("tolerations") or (),
            capacity={
                capacity: parse(text)
                for capacity, text in (value_at(fields, "capacity", "requests") or {}).items()
            },
            is_admin=bool(fields.get("adminAccess")),
        )
        for name, fields in _alternatives(request)
    ]


def _alternatives(request: Tree) -> Iterator[tuple[str, Tree]]:
    if request.get("exactly") is not None:
        yield request["name"], request["exactly"]
    for subrequest in request.get("firstAvailable") or ():
        yield f"{request['name']}/{subrequest['name']}", subrequest
