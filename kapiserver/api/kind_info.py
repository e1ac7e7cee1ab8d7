"""KindInfo: what the server knows of one resource in one version, built-in or custom.

The Scheme returns a KindInfo for a version and a plural name; `builtin_kinds.BuiltinKind` and
`custom_kinds.CustomVersion` implement it. Code that is given a KindInfo never asks which it is.
Knows no bytes, no store and no HTTP.
"""

from __future__ import annotations

from typing import Protocol

from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class KindInfo(Protocol):
    """One resource in one version."""

    @property
    def resource(self) -> Resource:
        """The names, scope, verbs and subresources."""

    @property
    def group_version(self) -> GroupVersion:
        """The version of the objects."""

    @property
    def is_typed(self) -> bool:
        """Whether a declared type describes the objects. Such objects have a Protobuf form."""

    @property
    def is_compiled(self) -> bool:
        """Whether `compile` has nothing left to do."""

    def compile(self) -> None:
        """Compile what every request needs. May take long; safe in a thread."""

    @property
    def is_terminating(self) -> bool:
        """Whether the CustomResourceDefinition is being deleted; creates are refused then."""

    @property
    def scale(self) -> Tree | None:
        """The JSON paths of the scale subresource; None if the usual fields have the replicas."""

    def strategy(self, subresource: str = "") -> Strategy:
        """Return how writes of the objects, or of one of their subresources, behave."""
