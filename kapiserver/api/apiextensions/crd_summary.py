"""Types for a partial decode of CustomResourceDefinitions, without schemas.

At startup, servers decode every definition to these types and skip the schemas, which are nearly
all of their bytes.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.v1 import (
    CustomResourceConversion,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
    CustomResourceSubresources,
    SelectableField,
)
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Type, field, int64


class MetadataSummary(Type):
    """The identity of a definition and its deletion state."""

    name: str = field(1)
    uid: str = field(5)
    generation: int64 = field(7)
    deletionTimestamp: Time | None = field(9)
    annotations: dict[str, str] = field(12)
    finalizers: list[str] = field(14)


class VersionSummary(Type):
    """A version without its schema and columns."""

    name: str = field(1, always=True)
    served: bool = field(2, always=True)
    storage: bool = field(3, always=True)
    deprecated: bool = field(7)
    deprecationWarning: str | None = field(8)
    subresources: CustomResourceSubresources | None = field(5)
    selectableFields: list[SelectableField] = field(9)


class SpecSummary(Type):
    """The names and versions."""

    group: str = field(1, always=True)
    names: CustomResourceDefinitionNames = field(3)
    scope: str = field(4, always=True)
    versions: list[VersionSummary] = field(7, always=True)
    conversion: CustomResourceConversion | None = field(9)
    preserveUnknownFields: bool = field(10)


class DefinitionSummary(Type):
    """The part of a definition that servers keep in memory."""

    metadata: MetadataSummary = field(1)
    spec: SpecSummary = field(2)
    status: CustomResourceDefinitionStatus = field(3)
