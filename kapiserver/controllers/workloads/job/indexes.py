"""The completion indexes of an Indexed Job: of its pods, and as the text of its status.

A text such as "0,2-4" lists indexes in ascending order; two neighbours are written "2,3", three and
more "2-4". Mirrors pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import annotations_of
from kapiserver.api.types import Tree

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Tree, completions: int) -> int | None:
    """Return the completion index of a pod; None if it is missing, invalid or out of range."""
    text = annotations_of(pod).get(COMPLETION_INDEX, "")
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(completions)):
        return None
    return int(text) if int(text) < completions else None


def parse_indexes(text: str | None, completions: int) -> frozenset[int]:
    """Return the indexes below `completions` of a text; parts that are not numbers are ignored."""
    indexes: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if _is_number(first) and _is_number(last):
            indexes.update(range(int(first), min(int(last) + 1, completions)))
    return frozenset(index for index in indexes if index < completions)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12


def indexes_text(indexes: Iterable[int]) -> str:
    """Return the text of indexes."""
    parts: list[str] = []
    for first, last in _intervals(sorted(indexes)):
        parts.append(str(first))
        if last == first + 1:
            parts.append(str(last))
        elif last > first:
            parts[-1] = f"{first}-{last}"
    return ",".join(parts)


def _intervals(ordered: list[int]) -> list[tuple[int, int]]:
    intervals: list[tuple[int, int]] = []
    for index in ordered:
        if intervals and intervals[-1][1] == index - 1:
            intervals[-1] = (intervals[-1][0], index)
        else:
            intervals.append((index, index))
    return intervals
