"""What an oracle says of a run."""

from __future__ import annotations

from msgspec import Struct


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    oracle      the name of the oracle
    message     a sentence
    lines       a diff or other details
    position    when it happened; None: at the end
    """

    oracle: str
    message: str
    lines: tuple[str, ...] = ()
    position: int | None = None

    @property
    def signature(self) -> tuple[str, str, tuple[str, ...]]:
        """Equal for faults of different runs that are the same."""
        lines = self.lines if self.oracle.endswith("state") else ()
        return (self.oracle, self.message, lines)
