"""Structural schemas: the parts of a schema that pruning, defaulting, validation and CEL rules use.

`compile` wraps a schema (a canonical tree of JSONSchemaProps that `check` accepted) in one node;
the nodes below it, and the values that other modules compile for them, are made on first use. The
tree is never changed. Knows no kind and no object. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.types import Tree, Value

MAX_FINDINGS = 1000
"""The maximum number of errors that are reported for one list or object."""


class Structural:
    """The schema of one field. Attributes are read from the tree on first use and cached."""

    def __init__(self, schema: Tree) -> None:
        self.schema = schema
        self.compiled: dict[str, Any] = {}
        """Values that other modules compiled for this node, by the module's name."""

    @functools.cached_property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`, or empty."""
        return str(self.schema.get("type") or "")

    @functools.cached_property
    def nullable(self) -> bool:
        """Whether null is allowed."""
        return bool(self.schema.get("nullable"))

    @functools.cached_property
    def default(self) -> Value:
        """The default; None if there is none."""
        return self.schema.get("default")

    @functools.cached_property
    def preserves(self) -> bool:
        """Whether unknown fields are preserved."""
        return bool(self.schema.get("x-kubernetes-preserve-unknown-fields"))

    @functools.cached_property
    def embedded(self) -> bool:
        """Whether the value is an embedded resource."""
        return bool(self.schema.get("x-kubernetes-embedded-resource"))

    @functools.cached_property
    def int_or_string(self) -> bool:
        """Whether the value is an int or a string, whatever its type."""
        return bool(self.schema.get("x-kubernetes-int-or-string"))

    @functools.cached_property
    def list_type(self) -> str:
        """`atomic`, `set` or `map`; empty for atomic."""
        return str(self.schema.get("x-kubernetes-list-type") or "")

    @functools.cached_property
    def map_keys(self) -> tuple[str, ...]:
        """The key fields of a list of type map."""
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @functools.cached_property
    def map_type(self) -> str:
        """`granular` or `atomic`; empty for granular."""
        return str(self.schema.get("x-kubernetes-map-type") or "")

    @functools.cached_property
    def rules(self) -> tuple[Tree, ...]:
        """The CEL rules."""
        return tuple(self.schema.get("x-kubernetes-validations") or ())

    @functools.cached_property
    def properties(self) -> dict[str, Structural]:
        """The declared fields."""
        return {
            name: Structural(child) for name, child in (self.schema.get("properties") or {}).items()
        }

    @functools.cached_property
    def items(self) -> Structural | None:
        """The schema of a list's items."""
        items = self.schema.get("items")
        return Structural(items) if isinstance(items, dict) else None

    @functools.cached_property
    def open(self) -> bool:
        """Whether the value is a map, so that fields of any name are known."""
        return self.schema.get("additionalProperties") is not None

    @functools.cached_property
    def values(self) -> Structural | None:
        """The schema of a map's values; None if it is not specified."""
        values = self.schema.get("additionalProperties")
        return Structural(values) if isinstance(values, dict) else None

    def field(self, name: str) -> Structural | None:
        """Return the schema of the field or map value of this name."""
        return self.properties.get(name) or self.values


def has_embedded_resources(node: Structural) -> bool:
    """Report whether there may be embedded resources below a node; computed once."""
    cached: bool | None = node.compiled.get("holds objects")
    if cached is None:
        children = [*node.properties.values(), node.items, node.values]
        cached = any(
            child is not None and (child.embedded or has_embedded_resources(child))
            for child in children
        )
        node.compiled["holds objects"] = cached
    return cached


def compile(schema: Tree) -> Structural:
    """Return the node of a schema; cheap for any schema. Keep the node as long as the schema."""
    return Structural(schema)


def has_rules(node: Structural) -> bool:
    """Report whether a node or one below it has rules; computed once."""
    cached: bool | None = node.compiled.get("has rules")
    if cached is None:
        children = [
            child for child in (node.items, node.values, *node.properties.values()) if child
        ]
        cached = bool(node.rules) or any(map(has_rules, children))
        node.compiled["has rules"] = cached
    return cached
