"""Functions of sprig, the library of functions for Go's templates (github.com/Masterminds/sprig).

Those that read the environment, the network or files, or that make keys, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kapiserver.simulation.templates.sprig.collections import COLLECTIONS
from kapiserver.simulation.templates.sprig.dates import DATES
from kapiserver.simulation.templates.sprig.encoding import ENCODING
from kapiserver.simulation.templates.sprig.logic import LOGIC
from kapiserver.simulation.templates.sprig.numbers import NUMBERS
from kapiserver.simulation.templates.sprig.patterns import PATTERNS
from kapiserver.simulation.templates.sprig.texts import TEXTS

SPRIG: Mapping[str, Callable[..., Any]] = {
    **COLLECTIONS,
    **DATES,
    **ENCODING,
    **LOGIC,
    **NUMBERS,
    **PATTERNS,
    **TEXTS,
}
"""Functions whose result follows from their arguments. `now` and the random ones need a clock and a
source of random numbers, and are added by whoever evaluates a template."""
