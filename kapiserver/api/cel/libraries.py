"""All functions of the language, by name: what its libraries declare, in the order of this list."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kapiserver.api.cel import library_kubernetes, library_standard, library_text
from kapiserver.api.cel.functions import Overload, Table, overload

LIBRARIES: Sequence[Table] = (
    library_standard.FUNCTIONS,
    library_text.FUNCTIONS,
    library_kubernetes.FUNCTIONS,
)


@functools.cache
def declared(name: str) -> tuple[Overload, ...]:
    """All overloads of a function; none where there is no such function."""
    return tuple(overload(row) for table in LIBRARIES for row in table.get(name, ()))
