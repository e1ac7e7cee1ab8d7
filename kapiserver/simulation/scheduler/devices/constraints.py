"""Constraints of a claim: what the devices of its requests must have in common, or not."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.requests import DeviceRequest
from kapiserver.simulation.scheduler.devices.slices import Device


class Constraint:
    """A constraint, and the values of the devices that are chosen so far."""

    def __init__(self, tree: Tree) -> None:
        self._requests = frozenset(tree.get("requests") or ())
        self._is_distinct = bool(tree.get("distinctAttribute"))
        self._attribute: str = tree.get("distinctAttribute") or tree.get("matchAttribute") or ""
        self._values: list[tuple[str, object]] = []

    def _concerns(self, request: DeviceRequest) -> bool:
        return not self._requests or not self._requests.isdisjoint((request.name, request.parent))

    def add(self, request: DeviceRequest, device: Device) -> bool:
        """Add a device if the constraint allows it, and report that."""
        if not self._concerns(request):
            return True
        value = device.attribute(self._attribute)
        if value is None or not self._allows(value):
            return False
        self._values.append(value)
        return True

    def _allows(self, value: tuple[str, object]) -> bool:
        if self._is_distinct:
            return value not in self._values
        return not self._values or value == self._values[0]

    def remove(self, request: DeviceRequest) -> None:
        """Remove the device that was added last."""
        if self._concerns(request):
            self._values.pop()
