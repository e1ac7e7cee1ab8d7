"""Rules for how much of a device's capacity can be asked for, where claims share the device."""

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
_ONE = 10**9
_FAR = 40
_BOTH = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the '
    "same time"
)


def validate_request_policy(policy: Tree, capacity: str, path: Path) -> Iterator[FieldError]:
    """What may be asked for of so much."""
    values, limits = policy.get("validValues") or (), policy.get("validRange")
    default = policy.get("default")
    if values and limits is not None:
        yield forbidden(path, _BOTH)
    elif default is None:
        for name, given in (("validValues", bool(values)), ("validRange", limits is not None)):
            if given:
                yield required(path / "default", f"required when {name} is defined")
    elif values:
        yield from _values(values, default, capacity, path / "validValues")
    elif limits is not None:
        yield from _validate_range(limits, default, capacity, path / "validRange")


def _values(values: Sequence[str], default: str, capacity: str, path: Path) -> Iterator[FieldError]:
    exact = [amount(value) for value in values]
    for index in range(1, len(values)):
        if exact[index - 1] > exact[index]:
            yield invalid(path[index], values[index], "values must be sorted in ascending order")
    if len(values) > _VALUES_MAX:
        yield too_many(path, len(values), _VALUES_MAX)
    else:
        yield from _options(values, exact, capacity, path)
    if len(values) > _VALUES_MAX or amount(default) not in exact:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _options(
    values: Sequence[str], exact: Sequence[Decimal], capacity: str, path: Path
) -> Iterator[FieldError]:
    for index, value in enumerate(exact):
        if value > amount(capacity):
            detail = f"option is larger than capacity value: {capacity}"
            yield invalid(path[index], values[index], detail)
    for index, value in enumerate(exact):
        if value in exact[:index]:
            yield duplicate(path[index], f"{value:f}" if value.adjusted() < 30 else str(value))


def _validate_range(limits: Tree, default: str, capacity: str, path: Path) -> Iterator[FieldError]:
    least, most, step = (limits.get(name) for name in ("min", "max", "step"))
    if least is None:
        yield required(path / "min", "required when validRange is defined")
        return
    yield from _bounds(least, most, default, capacity, path)
    given = [("default", default), ("min", least), ("max", most), ("step", step)]
    told = [(name, text) for name, text in given if text is not None]
    fractional = any(_is_fractional(text) for _, text in told)
    unsafe = [error for name, text in told for error in _milli(text, path / name)]
    if fractional and unsafe:
        yield from unsafe
        return
    if step is None:
        return
    if amount(step) <= 0:
        yield invalid(path / "step", step, "must be greater than zero")
        return
    added = add(parse(least), parse(step))
    if added.decimal > amount(capacity):
        detail = f"one step {added} is larger than capacity value: {capacity}"
        yield invalid(path / "step", step, detail)
    unsafe = [error for name, text in told for error in _int64(text, path / name)]
    if not fractional and unsafe:
        yield from unsafe
        return
    for value in (default, most):
        if value is not None and _rest(value, least, step):
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            yield invalid(path / "step", value, detail)


def _bounds(
    least: str, maximum: str | None, default: str, capacity: str, path: Path
) -> Iterator[FieldError]:
    if amount(least) > amount(capacity):
        detail = f"min is larger than capacity value: {capacity}"
        yield invalid(path / "min", least, detail)
    if amount(default) < amount(least):
        yield invalid(path / "default", default, f"default is less than min: {least}")
    if maximum is None:
        return
    if amount(least) > amount(maximum):
        yield invalid(path / "max", least, f"min is larger than max: {maximum}")
    if amount(maximum) > amount(capacity):
        detail = f"max is larger than capacity value: {capacity}"
        yield invalid(path / "max", maximum, detail)
    if amount(default) > amount(maximum):
        yield invalid(path / "default", default, f"default is more than max: {maximum}")


def _nanos(text: str) -> int:
    # No quantity is finer. What is beyond all that counts is only far, not as far as it says.
    found = parse(text)
    exponent = min(found.scale, _FAR) + 9
    nanos: int = found.mantissa * 10**exponent
    return nanos


def _is_fractional(text: str) -> bool:
    return bool(_nanos(text) % _ONE)


def _milli(text: str, path: Path) -> Iterator[FieldError]:
    thousandths, rest = divmod(_nanos(text), _ONE // 1000)
    if rest or abs(thousandths) > _INT64_MAX:
        yield invalid(path, text, "value cannot be represented as a milli value")


def _int64(text: str, path: Path) -> Iterator[FieldError]:
    value = amount(text)
    if value < 0:
        yield invalid(path, text, NEGATIVE)
    elif value > _INT64_MAX:
        yield invalid(path, text, f"must not be larger than {_INT64_MAX}")


def _rest(value: str, least: str, step: str) -> int:
    return (_nanos(value) - _nanos(least)) % _nanos(step)
