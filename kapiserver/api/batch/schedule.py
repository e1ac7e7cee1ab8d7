"""Validation of cron schedules.

A schedule has five fields of numbers, names, ranges and steps, or is a descriptor like `@daily`.
Messages are those of the parser that Kubernetes uses. Mirrors ParseStandard of robfig/cron, version
3.
"""

from __future__ import annotations

import re

from msgspec import Struct

_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
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


def schedule_problems(text: str) -> list[str]:
    """Return the messages about a schedule: an empty list if it is valid."""
    try:
        _parse(text)
    except ValueError as error:
        return [str(error)]
    return []


def _parse(text: str) -> None:
    if not text:
        raise ValueError("empty spec string")
    if text.startswith(_ZONES):  # validation of cron jobs reports the zone
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        _parse_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        problem = f"found {len(fields)}: [{' '.join(fields)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, {problem}")
    for part, field in zip(fields, _FIELDS, strict=True):
        for expression in part.split(","):
            if expression:
                _parse_range(expression, field)


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise ValueError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    if not _DURATION.fullmatch(duration):
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{duration}"')


def _parse_range(text: str, field: _Field) -> None:
    interval, *step_texts = text.split("/")
    start_text, *end_texts = interval.split("-")
    if start_text in ("*", "?"):
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
