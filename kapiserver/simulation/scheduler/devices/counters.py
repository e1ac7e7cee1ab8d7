"""Shared counters: the parts of one piece of hardware draw from them, so that not all parts are in
use at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api.quantity import Amount, add, parse, subtract
from kapiserver.simulation.scheduler.devices.pools import Pool
from kapiserver.simulation.scheduler.devices.slices import Device, DeviceID


class Counters:
    """What is left of the counters of one pool."""

    def __init__(self, pool: Pool, is_in_use: Callable[[DeviceID], bool]) -> None:
        self._left: dict[tuple[str, str], Amount] = {
            (name, counter): parse(fields["value"])
            for name, counter_set in pool.counter_sets.items()
            for counter, fields in (counter_set.get("counters") or {}).items()
        }
        for device in (*pool.devices, *pool.others):
            if is_in_use(device.id):
                self._change(device, subtract)

    def take(self, device: Device) -> bool:
        """Draw what a device needs if there is enough, and report that."""
        self._change(device, subtract)
        if all(self._left[key].decimal >= 0 for key, _ in _needs(device)):
            return True
        self.give_back(device)
        return False

    def give_back(self, device: Device) -> None:
        """Undo a `take`."""
        self._change(device, add)

    def _change(self, device: Device, operation: Callable[[Amount, Amount], Amount]) -> None:
        for key, amount in _needs(device):
            if key in self._left:
                self._left[key] = operation(self._left[key], amount)


def _needs(device: Device) -> Iterator[tuple[tuple[str, str], Amount]]:
    for consumption in device.counters:
        for counter, fields in (consumption.get("counters") or {}).items():
            yield (consumption["counterSet"], counter), parse(fields["value"])
