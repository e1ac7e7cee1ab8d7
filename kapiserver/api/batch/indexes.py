"""Sets of a job's indexes as texts: `0,2-4,7`.

Knows no job. Mirrors validateIndexesFormat of pkg/apis/batch/validation.
"""

from __future__ import annotations

from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]
"""The first and the last index of a row of them."""
_DIGITS = 18


def intervals(text: str, completions: int) -> list[Interval]:
    """The rows, in increasing order, of indexes below `completions`.

    Raises ValueError with kube-apiserver's message.
    """
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        one = _interval(part, completions)
        if found and found[-1][1] >= one[0]:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {one[0]}")
        found.append(one)
    return found


def _interval(text: str, completions: int) -> Interval:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f'the fragment "{text}" violates the requirement that an index interval can have at '
            "most two parts separated by '-'"
        )
    first, last = _index(limits[0], completions), _index(limits[-1], completions)
    if len(limits) > 1 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= _DIGITS):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    found = int(digits)
    if found >= completions:
        raise ValueError(f'too large index: "{text}"')
    return found


def first_common(some: list[Interval], others: list[Interval]) -> int | None:
    """The first index that is in both sets."""
    position = 0
    for first, last in some:
        while position < len(others) and others[position][1] < first:
            position += 1
        if position < len(others) and others[position][0] <= last:
            return max(first, others[position][0])
    return None
