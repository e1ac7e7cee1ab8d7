"""sprig's functions for times. A time is seconds since the epoch, a float, or its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kapiserver.simulation.templates.errors import TemplateError

_LAYOUT = re.compile(r"2006|January|Jan|01|02|15|03|04|05|Monday|Mon|PM|MST|Z07:00|-0700")
_CODES = {
    "2006": "%Y", "January": "%B", "Jan": "%b", "01": "%m", "02": "%d", "15": "%H", "03": "%I",
    "04": "%M", "05": "%S", "Monday": "%A", "Mon": "%a", "PM": "%p", "MST": "%Z", "-0700": "%z",
}  # fmt: skip


def _date(layout: str, value: Any) -> str:
    return _formatted(layout, _time_of(value))


def _date_in_zone(layout: str, value: Any, zone: str) -> str:
    if zone not in ("UTC", ""):
        raise TemplateError(f"unknown time zone {zone}: only UTC is supported")
    return _formatted(layout, _time_of(value))


def _unix_epoch(value: Any) -> str:
    return str(int(_time_of(value).timestamp()))


def _html_date(value: Any) -> str:
    return _formatted("2006-01-02", _time_of(value))


def _formatted(layout: str, time: datetime) -> str:
    def part(match: re.Match[str]) -> str:
        text = match.group()
        return "Z" if text == "Z07:00" else time.strftime(_CODES[text])

    return _LAYOUT.sub(part, layout)


def _time_of(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    return datetime.fromtimestamp(float(value), UTC)


DATES: Mapping[str, Callable[..., Any]] = {
    "date": _date,
    "dateInZone": _date_in_zone,
    "date_in_zone": _date_in_zone,
    "htmlDate": _html_date,
    "unixEpoch": _unix_epoch,
}
