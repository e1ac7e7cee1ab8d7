"""Validation of request policies: how much capacity of a shared device a claim can request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from kapiserver.api.core.validation.resources import NEGATIVE, amount
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
)
from kapiserver.api.quantity import add, parse
from kapiserver.api.types import Tree

_VALUES_MAX = 10
_INT64_MAX = 2**63 - 1
_NANOS_PER_UNIT = 10**9
_SCALE_MAX = 40
_BOTH_POLICIES = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the '
    "same time"
)


def validate_request_policy(policy: Tree, capacity: str, path: Path) -> Iterator[FieldError]:
    """Validate the request policy of a capacity."""
    values, valid_range = policy.get("validValues") or (), policy.get("validRange")
    default = policy.get("default")
    if values and valid_range is not None:
        yield forbidden(path, _BOTH_POLICIES)
    elif default is None:
        for name, is_set in (
            ("validValues", bool(values)),
            ("validRange", valid_range is not None),
        ):
            if is_set:
                yield required(path / "default", f"required when {name} is defined")
    elif values:
        yield from _validate_valid_values(values, default, capacity, path / "validValues")
    elif valid_range is not None:
        yield from _validate_range(valid_range, default, capacity, path / "validRange")


def _validate_valid_values(
    values: Sequence[str], default: str, capacity: str, path: Path
) -> Iterator[FieldError]:
    amounts = [amount(value) for value in values]
    for index in range(1, len(values)):
        if amounts[index - 1] > amounts[index]:
            yield invalid(path[index], values[index], "values must be sorted in ascending order")
    if len(values) > _VALUES_MAX:
        yield too_many(path, len(values), _VALUES_MAX)
    else:
        yield from _validate_options(values, amounts, capacity, path)
    if len(values) > _VALUES_MAX or amount(default) not in amounts:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _validate_options(
    values: Sequence[str], amounts: Sequence[Decimal], capacity: str, path: Path
) -> Iterator[FieldError]:
    for index, value in enumerate(amounts):
        if value > amount(capacity):
            detail = f"option is larger than capacity value: {capacity}"
            yield invalid(path[index], values[index], detail)
    for index, value in enumerate(amounts):
        if value in amounts[:index]:
            yield duplicate(path[index], f"{value:f}" if value.adjusted() < 30 else str(value))


def _validate_range(
    valid_range: Tree, default: str, capacity: str, path: Path
) -> Iterator[FieldError]:
    minimum, maximum, step = (valid_range.get(name) for name in ("min", "max", "step"))
    if minimum is None:
        yield required(path / "min", "required when validRange is defined")
        return
    yield from _validate_bounds(minimum, maximum, default, capacity, path)
    fields = [("default", default), ("min", minimum), ("max", maximum), ("step", step)]
    set_fields = [(name, text) for name, text in fields if text is not None]
    is_fractional = any(_is_fractional(text) for _, text in set_fields)
    range_errors = [
        error for name, text in set_fields for error in _validate_milli(text, path / name)
    ]
    if is_fractional and range_errors:
        yield from range_errors
        return
    if step is None:
        return
    if amount(step) <= 0:
        yield invalid(path / "step", step, "must be greater than zero")
        return
    sum_ = add(parse(minimum), parse(step))
    if sum_.decimal > amount(capacity):
        detail = f"one step {sum_} is larger than capacity value: {capacity}"
        yield invalid(path / "step", step, detail)
    range_errors = [
        error for name, text in set_fields for error in _validate_int64(text, path / name)
    ]
    if not is_fractional and range_errors:
        yield from range_errors
        return
    for value in (default, maximum):
        if value is not None and _distance_to_step(value, minimum, step):
            detail = f"value is not a multiple of a given step ({step}) from ({minimum})"
            yield invalid(path / "step", value, detail)


def _validate_bounds(
    minimum: str, maximum: str | None, default: str, capacity: str, path: Path
) -> Iterator[FieldError]:
    if amount(minimum) > amount(capacity):
        detail = f"min is larger than capacity value: {capacity}"
        yield invalid(path / "min", minimum, detail)
    if amount(default) < amount(minimum):
        yield invalid(path / "default", default, f"default is less than min: {minimum}")
    if maximum is None:
        return
    if amount(minimum) > amount(maximum):
        yield invalid(path / "max", minimum, f"min is larger than max: {maximum}")
    if amount(maximum) > amount(capacity):
        detail = f"max is larger than capacity value: {capacity}"
        yield invalid(path / "max", maximum, detail)
    if amount(default) > amount(maximum):
        yield invalid(path / "default", default, f"default is more than max: {maximum}")


def _nanos(text: str) -> int:
    # Nanos are the smallest unit of quantities. Larger scales are capped: they exceed every limit.
    quantity = parse(text)
    exponent = min(quantity.scale, _SCALE_MAX) + 9
    nanos: int = quantity.mantissa * 10**exponent
    return nanos


def _is_fractional(text: str) -> bool:
    return bool(_nanos(text) % _NANOS_PER_UNIT)


def _validate_milli(text: str, path: Path) -> Iterator[FieldError]:
    thousandths, remainder = divmod(_nanos(text), _NANOS_PER_UNIT // 1000)
    if remainder or abs(thousandths) > _INT64_MAX:
        yield invalid(path, text, "value cannot be represented as a milli value")


def _validate_int64(text: str, path: Path) -> Iterator[FieldError]:
    value = amount(text)
    if value < 0:
        yield invalid(path, text, NEGATIVE)
    elif value > _INT64_MAX:
        yield invalid(path, text, f"must not be larger than {_INT64_MAX}")


def _distance_to_step(value: str, minimum: str, step: str) -> int:
    return (_nanos(value) - _nanos(minimum)) % _nanos(step)
