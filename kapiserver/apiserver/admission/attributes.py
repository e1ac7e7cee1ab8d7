"""The attributes of a write that admission plugins see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.caller import Warnings
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.target import Target

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of one write; `name` is empty if the server has yet to generate it."""

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    name: str
    dry_run: bool = False

    def forbidden(self, reason: str) -> Forbidden:
        """Return the error with which a plugin refuses the write."""
        resource = self.target.resource
        name = self.name or "Unknown"
        return Forbidden(reason, resource=resource.name, group=resource.group, name=name)
