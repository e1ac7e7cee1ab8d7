"""Schedules of cron jobs as texts: what is wrong with one.

Five fields of numbers, names, ranges and steps, or a word like `@daily`, in the words of the
parser that Kubernetes uses. Knows no time. Mirrors ParseStandard of robfig/cron, version 3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_ZONES = ("TZ=", "CRON_TZ=")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_INT_DIGITS = 18


@dataclass(frozen=True, slots=True)
class _Field:
    """The numbers of one field, and their names."""

    least: int
    most: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        """The number that a number or a name means. Raises ValueError."""
        name = text.lower()
        return self.least + self.names.index(name) if name in self.names else _number(text)


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, tuple(_MONTHS)),
    _Field(0, 6, tuple(_DAYS)),
)


def schedule(text: str) -> list[str]:
    """The messages against a schedule; empty when it is fine."""
    try:
        _parse(text)
    except ValueError as error:
        return [str(error)]
    return []


def _parse(text: str) -> None:
    if not text:
        raise ValueError("empty spec string")
    if text.startswith(_ZONES):  # the zone is refused elsewhere
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        _word(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        found = f"found {len(fields)}: [{' '.join(fields)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, {found}")
    for part, field in zip(fields, _FIELDS, strict=True):
        for one in part.split(","):
            if one:
                _range(one, field)


def _word(text: str) -> None:
    if text in _WORDS:
        return
    if not text.startswith(_EVERY):
        raise ValueError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    if not _DURATION.fullmatch(duration):
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{duration}"')


def _range(text: str, field: _Field) -> None:
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    if first in ("*", "?"):
        start, end = field.least, field.most
    else:
        start = end = field.number(first)
        if len(rest) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if rest:
            end = field.number(rest[0])
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not rest:
        end = field.most
    if start < field.least:
        raise ValueError(f"beginning of range ({start}) below minimum ({field.least}): {text}")
    if end > field.most:
        raise ValueError(f"end of range ({end}) above maximum ({field.most}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        problem = "invalid syntax"
    elif len(digits.lstrip("0")) > _INT_DIGITS:
        problem = "value out of range"
    else:
        found = int(text)
        if found < 0:
            raise ValueError(f"negative number ({found}) not allowed: {text}")
        return found
    raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {problem}')
