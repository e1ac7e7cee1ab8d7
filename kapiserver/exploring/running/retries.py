"""When an operator will try again, as its objects say. Pure.

kopf writes the moment of the next attempt into an annotation, and other operators write it into a
status. Until then an operator is quiet, and has not given up: kopf's default is 60 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from kapiserver.api.types import Tree

MAX_RETRY_SECONDS = 90.0
"""A moment that is later than this is not a retry that a run waits for."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def seconds_to_retry(objects: Iterable[Tree], now: float) -> float:
    """Return the seconds until the last moment within MAX_RETRY_SECONDS that the objects name, 0.0
    if they name none. `now` is the time of the operator, in seconds since 1970."""
    rest = [moment - now for moment in _moments(objects)]
    return max((seconds for seconds in rest if 0 < seconds <= MAX_RETRY_SECONDS), default=0.0)


def _moments(objects: Iterable[Tree]) -> Iterator[float]:
    for obj in objects:
        for text in _TIME.findall(msgspec.json.encode(obj).decode()):
            try:
                yield datetime.fromisoformat(text).timestamp()
            except ValueError:  # no date, such as month 13
                continue
