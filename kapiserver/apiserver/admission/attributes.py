"""What an admission plugin is told of a write."""

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
    """What admission knows of a request; `name` is empty where the server still makes one."""

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    name: str
    dry_run: bool = False

    def forbidden(self, reason: str) -> Forbidden:
        """The error that refuses the write."""
        resource = self.target.resource
        name = self.name or "Unknown"
        return Forbidden(reason, resource=resource.name, group=resource.group, name=name)
