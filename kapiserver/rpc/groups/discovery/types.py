"""Internal types of the group discovery; they can represent all of its versions.

`kapiserver rpc generate` created this file. Edit it: it is not generated again.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class ListGroupsRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class ListGroupsResponse:
    groups: list[ServedGroup] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, kw_only=True)
class ServedGroup:
    name: str = ""
    project: str = ""
    versions: list[ServedVersion] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, kw_only=True)
class ServedVersion:
    name: str = ""
    service: str = ""
    endpoint: str = ""
    deprecated: bool = False
    calls: list[str] = dataclasses.field(default_factory=list)
