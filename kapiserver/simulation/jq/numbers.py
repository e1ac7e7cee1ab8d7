"""Functions of numbers and times."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kapiserver.simulation.jq.calls import expect, of_argument, of_arguments, of_value
from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Scope, computed
from kapiserver.simulation.jq.values import is_true, type_of

_PARTS_OF_A_TIME = 6


def _of_number(function: Callable[..., float]) -> Callable[..., Any]:
    """Return a function of numbers; what it cannot compute is not a number."""

    def run(*values: Any) -> Any:
        numbers = [expect(value, "number") for value in values]
        try:
            return _exact(function(*numbers))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return run


def _exact(number: float) -> Any:
    return int(number) if math.isfinite(number) and number == int(number) else number


def _round(number: float) -> float:
    return math.copysign(math.floor(abs(number) + 0.5), number)


def _constant(number: float) -> Callable[[], Filter]:
    return lambda: computed(lambda _value, _scope: iter((number,)))


def _is(test: Callable[[Any], bool]) -> Callable[[], Filter]:
    return of_value(lambda value: test(expect(value, "number")))


def _is_normal(value: Any) -> bool:
    return math.isfinite(value) and abs(value) >= 2.2250738585072014e-308


def _abs(value: Any) -> Any:
    return abs(expect(value, "number"))


# Times, in seconds since 1970 or taken apart: year, month from 0, day, hour, minute, second, day of
# the week, day of the year from 0.


def _now() -> Filter:
    def run(_value: Any, scope: Scope) -> Iterator[Any]:
        yield scope.now

    return computed(run)


def _moment(value: Any) -> datetime:
    try:
        if type_of(value) == "number":
            return datetime.fromtimestamp(value, UTC)
        parts = [expect(part, "number") for part in expect(value, "array")[:_PARTS_OF_A_TIME]]
        year, month, day, hour, minute, second = (int(part) for part in parts)
        fraction = round((parts[5] - second) * 1_000_000)
        return datetime(year, month + 1, day, hour, minute, second, fraction, UTC)
    except (ValueError, OverflowError, OSError):
        raise JqError("invalid time") from None


def _taken_apart(value: Any) -> list[Any]:
    moment = _moment(expect(value, "number"))
    seconds = _exact(moment.second + moment.microsecond / 1e6)
    return _parts(moment, seconds)


def _parts(moment: datetime, seconds: Any) -> list[Any]:
    day_of_week = (moment.weekday() + 1) % 7
    day_of_year = moment.timetuple().tm_yday - 1
    date = [moment.year, moment.month - 1, moment.day]
    return [*date, moment.hour, moment.minute, seconds, day_of_week, day_of_year]


def _make_time(value: Any) -> int:
    return calendar.timegm(_moment(expect(value, "array")).timetuple())


def _written(value: Any, form: Any) -> str:
    moment = _moment(value)
    try:
        return moment.strftime(expect(form, "string"))
    except (ValueError, UnicodeError):
        raise JqError("invalid format of a time") from None


def _read(value: Any, form: Any) -> list[Any]:
    try:
        moment = datetime.strptime(expect(value, "string"), expect(form, "string"))
    except (ValueError, OverflowError):
        raise JqError(f"cannot parse a time of the format {form}") from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return _parts(moment, _exact(moment.second + moment.microsecond / 1e6))


NUMBER_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    ("abs", 0): of_value(_abs),
    ("ceil", 0): of_value(_of_number(math.ceil)),
    ("exp", 0): of_value(_of_number(math.exp)),
    ("exp10", 0): of_value(_of_number(lambda number: math.pow(10, number))),
    ("exp2", 0): of_value(_of_number(lambda number: math.pow(2, number))),
    ("fabs", 0): of_value(_of_number(math.fabs)),
    ("floor", 0): of_value(_of_number(math.floor)),
    ("gmtime", 0): of_value(_taken_apart),
    ("infinite", 0): _constant(math.inf),
    ("isinfinite", 0): _is(math.isinf),
    ("isnan", 0): _is(math.isnan),
    ("isnormal", 0): _is(_is_normal),
    ("log", 0): of_value(_of_number(math.log)),
    ("log10", 0): of_value(_of_number(math.log10)),
    ("log2", 0): of_value(_of_number(math.log2)),
    ("mktime", 0): of_value(_make_time),
    ("nan", 0): _constant(math.nan),
    ("not", 0): of_value(lambda value: not is_true(value)),
    ("now", 0): _now,
    ("pow", 2): of_arguments(lambda _value, base, power: _of_number(math.pow)(base, power)),
    ("round", 0): of_value(_of_number(_round)),
    ("sqrt", 0): of_value(_of_number(math.sqrt)),
    ("strftime", 1): of_argument(_written),
    ("strptime", 1): of_argument(_read),
    ("trunc", 0): of_value(_of_number(math.trunc)),
}
