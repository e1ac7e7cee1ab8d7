"""The attributes of a write that admission plugins see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.caller import Warnings
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.target import Target

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of one write; `name` is empty if the server has yet to generate it.
    `annotations` are those of the audit event."""

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    annotations: dict[str, str]
    name: str
    dry_run: bool = False

    def forbidden(self, reason: str) -> Forbidden:
        """Return the error with which a plugin refuses the write."""
        resource = self.target.resource
        name = self.name or "Unknown"
        return Forbidden(reason, resource=resource.name, group=resource.group, name=name)


_COST_OF_CONTAINER = 10


def pod_cost(spec: Tree) -> int:
    """Return the cost of one step of admission for a pod (`codecs/cost.py`)."""
    containers = sum(len(spec.get(kind) or ()) for kind in ("containers", "initContainers"))
    return _COST_OF_CONTAINER * containers
