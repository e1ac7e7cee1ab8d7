"""Built-in kinds as KindInfo: a resource that an API group declares, in one of its versions.

Everything is looked up in the group's literal tables when it is first asked for.
"""

from __future__ import annotations

from typing import Protocol

from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.strategy import Strategy


class GroupTables(Protocol):
    """The lookup in the literal tables of all groups."""

    def strategy(self, resource: Resource, subresource: str = "") -> Strategy:
        """Return how writes of a resource, or of one of its subresources, behave."""


class BuiltinKind:
    """One built-in resource in one version."""

    __slots__ = ("_tables", "group_version", "resource")

    is_typed = True
    is_compiled = True
    is_terminating = False
    scale = None

    def __init__(
        self, resource: Resource, group_version: GroupVersion, tables: GroupTables
    ) -> None:
        self.resource = resource
        self.group_version = group_version
        self._tables = tables

    def compile(self) -> None:
        """Do nothing: built-in kinds are compiled part by part."""

    def strategy(self, subresource: str = "") -> Strategy:
        """Return how writes of the objects, or of one of their subresources, behave."""
        return self._tables.strategy(self.resource, subresource)
