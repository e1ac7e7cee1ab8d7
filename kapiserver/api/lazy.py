"""References to code that is imported at its first use.

Tables of late-loaded code hold `lazy("kapiserver.codecs.yaml:YAMLSerializer")`, so that a server
never imports what it does not use. The reference is a literal string. `tests/test_circles.py` reads
the references from the source, resolves each, and checks them against the layers, as import-linter
does with imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Generic, TypeVar

Loaded = TypeVar("Loaded")


class Lazy(Generic[Loaded]):
    """A reference to `module:name`. A call imports the module if necessary and returns the value,
    which an event loop awaits in a thread (`Offloader.load`)."""

    __slots__ = ("_reference", "value")

    def __init__(self, reference: str) -> None:
        self._reference = reference
        self.value: Loaded | None = None
        """The value; None before the first call."""

    def __call__(self) -> Loaded:
        value = self.value
        if value is None:
            module, _, name = self._reference.partition(":")
            value = self.value = getattr(import_module(module), name)
        return value


def loaded(value: Loaded) -> Lazy[Loaded]:
    """Return a reference to a value that needs no import."""
    reference: Lazy[Loaded] = Lazy("")
    reference.value = value
    return reference


def lazy(reference: str) -> Lazy[Any]:
    """Return a reference to `module:name`."""
    return Lazy(reference)
