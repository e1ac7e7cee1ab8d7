"""An event that a pure core plans, and that a shell records."""

from __future__ import annotations

from msgspec import Struct


class PlannedEvent(Struct, frozen=True):
    """An event about the reconciled object, recorded after the writes that it reports."""

    reason: str
    message: str
    type: str = "Normal"
