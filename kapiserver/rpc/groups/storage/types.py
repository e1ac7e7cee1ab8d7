"""Internal types of the group storage; they can represent all of its versions.

`kapiserver rpc generate` created this file. Edit it: it is not generated again.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class BackupRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class BackupResponse:
    """The first response has all fields but data, the others have data only."""

    revision: int = 0
    size: int = 0
    sha256: bytes = b""
    data: bytes = b""


@dataclasses.dataclass(slots=True, kw_only=True)
class CompactRequest:
    revision: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class CompactResponse:
    revision: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class CheckRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class CheckResponse:
    problems: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, kw_only=True)
class StatsRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class StatsResponse:
    backend: str = ""
    revision: int = 0
    compacted: int = 0
    objects: int = 0
    versions: int = 0
    size: int = 0
    free: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DefragmentRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class DefragmentResponse:
    old_size: int = 0
    new_size: int = 0
