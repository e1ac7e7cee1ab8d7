"""Parses cron schedules.

A schedule has five fields of numbers, names, ranges and steps, or is a descriptor like `@daily`.
Messages are those of the parser that Kubernetes uses. Mirrors ParseStandard of robfig/cron, version
3.
"""

from __future__ import annotations

import re

from msgspec import Struct

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"(?P<number>[0-9.]+)(?P<unit>[a-zµμ]+)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_ZONES = ("TZ=", "CRON_TZ=")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_INT_DIGITS = 18


class _Field(Struct, frozen=True):
    """The bounds of a field, and the names of its values."""

    minimum: int
    maximum: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        """Return the number that a number or a name stands for. Raises ValueError."""
        name = text.lower()
        return self.minimum + self.names.index(name) if name in self.names else _parse_number(text)


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, tuple(_MONTHS)),
    _Field(0, 6, tuple(_DAYS)),
)


class Schedule(Struct, frozen=True):
    """The times at which a CronJob starts Jobs.

    zone                the time zone that the text begins with, or ""
    every               seconds between two starts; 0 if the other fields have the times
    every_day_of_month  whether `days` comes from `*`
    every_day_of_week   whether `weekdays` comes from `*`; Sunday is 0
    """

    zone: str = ""
    every: int = 0
    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    every_day_of_month: bool = False
    every_day_of_week: bool = False


def schedule_problems(text: str) -> list[str]:
    """Return the messages about a schedule: an empty list if it is valid."""
    try:
        parse_schedule(text)
    except ValueError as error:
        return [str(error)]
    return []


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text stands for. Raises ValueError."""
    if not text:
        raise ValueError("empty spec string")
    zone = ""
    if text.startswith(_ZONES):  # validation of cron jobs reports the zone
        prefix, _, text = text.partition(" ")
        zone, text = prefix.partition("=")[2], text.strip()
    if text in _DESCRIPTORS:
        text = _DESCRIPTORS[text]
    elif text.startswith("@"):
        return Schedule(zone, _parse_every(text))
    fields = text.split()
    if len(fields) != len(_FIELDS):
        problem = f"found {len(fields)}: [{' '.join(fields)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, {problem}")
    values = [_parse_field(part, field) for part, field in zip(fields, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = values
    return Schedule(zone, 0, minutes, hours, days, months, weekdays, any_day, any_weekday)


def _parse_every(text: str) -> int:
    """Return the seconds of `@every DURATION`, which are whole, and at least one."""
    if not text.startswith(_EVERY):
        raise ValueError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    if not _DURATION.fullmatch(duration):
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{duration}"')
    seconds = sum(
        float(part["number"]) * _SECONDS[part["unit"]] for part in _PART.finditer(duration)
    )
    return max(1, int(seconds)) if not duration.startswith("-") else 1


def _parse_field(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """Return the numbers of a list of ranges, and whether one of them is `*`."""
    ranges = [_parse_range(expression, field) for expression in text.split(",") if expression]
    numbers = frozenset(number for numbers, _ in ranges for number in numbers)
    return numbers, any(is_any for _, is_any in ranges)


def _parse_range(text: str, field: _Field) -> tuple[range, bool]:
    """Return the numbers of a range, and whether it is `*` without a step."""
    interval, *step_texts = text.split("/")
    start_text, *end_texts = interval.split("-")
    is_any = start_text in ("*", "?")
    if is_any:
        start, end = field.minimum, field.maximum
    else:
        start = end = field.number(start_text)
        if len(end_texts) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if end_texts:
            end = field.number(end_texts[0])
    if len(step_texts) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _parse_number(step_texts[0]) if step_texts else 1
    if step_texts and not end_texts:
        end = field.maximum
    if start < field.minimum:
        raise ValueError(f"beginning of range ({start}) below minimum ({field.minimum}): {text}")
    if end > field.maximum:
        raise ValueError(f"end of range ({end}) above maximum ({field.maximum}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), is_any and step == 1


def _parse_number(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        problem = "invalid syntax"
    elif len(digits.lstrip("0")) > _INT_DIGITS:
        problem = "value out of range"
    else:
        number = int(text)
        if number < 0:
            raise ValueError(f"negative number ({number}) not allowed: {text}")
        return number
    raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {problem}')
