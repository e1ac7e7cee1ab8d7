"""Consumable capacity: how much of a device's capacity a request gets.

A policy of the driver may allow only certain amounts; a request is rounded up to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.quantity import Amount, add, parse
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.devices.slices import Device
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError

Consumption = Mapping[str, Amount]
"""Amounts of capacity, by name."""
_MILLI = -3
_MAX_INT64 = 2**63 - 1


def consumption(requested: Consumption, device: Device) -> Consumption | None:
    """Return how much a request consumes of each capacity of a device; None if the device does not
    have a capacity, or its policy does not allow the amount. Raises SchedulingError."""
    if not requested.keys() <= device.capacity.keys():
        return None
    amounts = {
        name: _amount(requested.get(name), capacity, name)
        for name, capacity in device.capacity.items()
    }
    is_allowed = all(
        _allows(capacity.get("requestPolicy") or {}, amounts[name])
        for name, capacity in device.capacity.items()
    )
    return amounts if is_allowed else None


def has_room(device: Device, consumptions: Sequence[Consumption]) -> bool:
    """Report whether the capacity of a device is enough for all consumptions together."""
    for name, capacity in device.capacity.items():
        total = Amount(0, 0, "DecimalSI")
        for consumption in consumptions:
            if name in consumption:
                total = add(total, consumption[name])
        if total.decimal > parse(capacity["value"]).decimal:
            return False
    return True


def _amount(requested: Amount | None, capacity: Tree, name: str) -> Amount:
    policy = capacity.get("requestPolicy") or {}
    if requested is None:
        return parse(policy.get("default") or capacity["value"])
    valid_range = policy.get("validRange") or {}
    if valid_range.get("min"):
        return _rounded_up(requested, valid_range, name)
    for text in policy.get("validValues") or ():
        if requested.decimal <= parse(text).decimal:
            return parse(text)
    return requested


def _rounded_up(requested: Amount, valid_range: Tree, name: str) -> Amount:
    minimum = parse(valid_range["min"])
    if requested.decimal < minimum.decimal:
        return minimum
    if not valid_range.get("step"):
        return requested
    step = parse(valid_range["step"])
    scale = _MILLI if all(map(_is_milli, (minimum, step, requested))) else 0
    first, distance = minimum.scaled(scale), step.scaled(scale)
    value = first + -(-(requested.scaled(scale) - first) // distance) * distance
    if value > _MAX_INT64 or requested.decimal > _MAX_INT64:
        problem = "capacity request cannot be represented in the device's range arithmetic"
        raise SchedulingError(f'capacity "{name}": {problem}')
    if scale and value % 1000 == 0:
        return Amount(value // 1000, 0, step.format)
    return Amount(value, scale, step.format)


def _is_milli(amount: Amount) -> bool:
    """Report whether an amount is a whole number of thousandths in 64 bits."""
    return Amount(amount.scaled(_MILLI), _MILLI, amount.format).decimal == amount.decimal


def _allows(policy: Tree, amount: Amount) -> bool:
    """Report whether a policy allows an amount that has been rounded up."""
    if policy.get("default") and amount.decimal == parse(policy["default"]).decimal:
        return True
    if policy.get("validRange"):
        maximum = policy["validRange"].get("max")
        return not maximum or amount.decimal <= parse(maximum).decimal
    values = policy.get("validValues") or ()
    return not values or any(amount.decimal == parse(value).decimal for value in values)
