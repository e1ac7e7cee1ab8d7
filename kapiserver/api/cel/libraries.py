"""All functions of CEL by name, from the tables of its libraries."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kapiserver.api.cel import (
    library_authorization,
    library_kubernetes,
    library_lists,
    library_standard,
    library_text,
)
from kapiserver.api.cel.functions import Overload, Table, overload

LIBRARIES: Sequence[Table] = (
    library_standard.FUNCTIONS,
    library_text.FUNCTIONS,
    library_lists.FUNCTIONS,
    library_kubernetes.FUNCTIONS,
    library_authorization.FUNCTIONS,
)


def overloads_of(name: str) -> tuple[Overload, ...]:
    """Return all overloads of a function; empty for an unknown function."""
    return _known_overloads(name) if any(name in table for table in LIBRARIES) else ()


@functools.cache
def _known_overloads(name: str) -> tuple[Overload, ...]:
    # Unknown names are not cached, because clients choose them.
    return tuple(overload(row) for table in LIBRARIES for row in table.get(name, ()))
