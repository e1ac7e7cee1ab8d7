"""All functions of CEL by name, from the tables of its libraries."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kapiserver.api.cel.functions import Overload, Table, overload
from kapiserver.api.cel.libraries import authorization, kubernetes, lists, standard, text

LIBRARIES: Sequence[Table] = (
    standard.FUNCTIONS,
    text.FUNCTIONS,
    lists.FUNCTIONS,
    kubernetes.FUNCTIONS,
    authorization.FUNCTIONS,
)


def overloads_of(name: str) -> tuple[Overload, ...]:
    """Return all overloads of a function; empty for an unknown function."""
    return _known_overloads(name) if any(name in table for table in LIBRARIES) else ()


@functools.cache
def _known_overloads(name: str) -> tuple[Overload, ...]:
    # Unknown names are not cached, because clients choose them.
    return tuple(overload(row) for table in LIBRARIES for row in table.get(name, ()))
