"""Numbers that the API gives as an integer or a percentage."""

from __future__ import annotations


def scaled_value(value: int | str | None, total: int, *, round_up: bool) -> int:
    """Return an integer, or a percentage such as "25%" of `total`. None is 0. The API has validated
    the percentage."""
    if isinstance(value, str):
        percent = int(value.removesuffix("%").lstrip("0") or "0")
        return -(-percent * total // 100) if round_up else percent * total // 100
    return value or 0
