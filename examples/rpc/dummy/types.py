"""Internal types of the group dummy; they can represent all of its versions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class ComputeDoubleRequest:
    """The number to double."""

    input: int = 0


@dataclass(slots=True, kw_only=True)
class ComputeDoubleResponse:
    """The doubled number, or `overflow` if it does not fit into 64 bits."""

    response: int = 0
    overflow: bool = False
