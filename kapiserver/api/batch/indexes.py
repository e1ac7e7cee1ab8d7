"""Sets of completion indexes as texts: `0,2-4,7`.

Knows no job. Mirrors validateIndexesFormat of pkg/apis/batch/validation.
"""

from __future__ import annotations

from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]
"""The first and the last index of an interval."""
_DIGITS = 18


def parse_intervals(text: str, completions: int) -> list[Interval]:
    """Return the intervals of a text. They must be in increasing order, with indexes below
    `completions`.

    Raises ValueError with kube-apiserver's message.
    """
    intervals: list[Interval] = []
    for part in text.split(",") if text else ():
        interval = _parse_interval(part, completions)
        if intervals and intervals[-1][1] >= interval[0]:
            raise ValueError(
                f"non-increasing order, previous: {intervals[-1][1]}, current: {interval[0]}"
            )
        intervals.append(interval)
    return intervals


def _parse_interval(text: str, completions: int) -> Interval:
    bounds = text.split("-")
    if len(bounds) > 2:
        raise ValueError(
            f'the fragment "{text}" violates the requirement that an index interval can have at '
            "most two parts separated by '-'"
        )
    first, last = _parse_index(bounds[0], completions), _parse_index(bounds[-1], completions)
    if len(bounds) > 1 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _parse_index(text: str, completions: int) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= _DIGITS):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    index = int(digits)
    if index >= completions:
        raise ValueError(f'too large index: "{text}"')
    return index


def first_common(left: list[Interval], right: list[Interval]) -> int | None:
    """Return the first index that is in both sets, or None."""
    position = 0
    for first, last in left:
        while position < len(right) and right[position][1] < first:
            position += 1
        if position < len(right) and right[position][0] <= last:
            return max(first, right[position][0])
    return None
