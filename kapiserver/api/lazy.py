"""References to code that is imported at its first use.

Tables of late-loaded code hold `lazy("kapiserver.codecs.yaml:YAMLSerializer")`, so that a server
never imports what it does not use. The reference is a literal string. `tests/test_circles.py` reads
the references from the source, resolves each, and checks them against the layers, as import-linter
does with imports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(reference: str) -> Callable[[], Any]:
    """Return a function that imports `module:name` when it is first called, and returns it."""
    module, _, name = reference.partition(":")

    @functools.cache
    def load() -> Any:
        return getattr(import_module(module), name)

    return load
