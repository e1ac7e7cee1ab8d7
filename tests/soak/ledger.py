"""The ledger of a soak: the objects that a store must hold after any crash."""

from __future__ import annotations

from collections.abc import Mapping


class Ledger:
    """The values that each name may have: of the last acknowledged write, and of every write since
    whose outcome is unknown. A name belongs to one client. None: the object does not exist."""

    def __init__(self) -> None:
        self._allowed: dict[str, set[str | None]] = {}
        self.acknowledged = 0
        """How many writes were acknowledged."""

    def begin(self, name: str, value: str | None) -> None:
        """A client sends a write."""
        self._allowed.setdefault(name, {None}).add(value)

    def acknowledge(self, name: str, value: str | None) -> None:
        """The server has acknowledged the write."""
        self._allowed[name] = {value}
        self.acknowledged += 1

    def lost(self, stored: Mapping[str, str]) -> list[str]:
        """Return a line for each name whose stored value no write explains."""
        return [
            f"{name}: {stored.get(name)} is stored, not {' or '.join(sorted(map(str, allowed)))}"
            for name, allowed in self._allowed.items()
            if stored.get(name) not in allowed
        ] + [f"{name}: nobody wrote it" for name in stored if name not in self._allowed]
