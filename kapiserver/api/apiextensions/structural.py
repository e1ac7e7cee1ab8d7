"""Structural schemas: what pruning, defaulting, validation and rules need to know of a field.

`compile` wraps a schema (a canonical tree of JSONSchemaProps that `check` found nothing wrong
with) in a node at the cost of one object; the nodes below it, and what the other modules compile
for them, are made when first asked for. The tree is never changed. Knows no kind and no object.
Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.types import Tree, Value

MAX_FINDINGS = 1000
"""How much that is wrong with one list or object is told: enough to see what it is."""


class Structural:
    """One field's schema. Every attribute is read from the tree when first used, then kept."""

    def __init__(self, schema: Tree) -> None:
        self.schema = schema
        self.compiled: dict[str, Any] = {}
        """What other modules made for this node, by their name."""

    @functools.cached_property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`, or empty."""
        return str(self.schema.get("type") or "")

    @functools.cached_property
    def nullable(self) -> bool:
        """Whether null is a value of it."""
        return bool(self.schema.get("nullable"))

    @functools.cached_property
    def default(self) -> Value:
        """What it is where it is not given; None for nothing."""
        return self.schema.get("default")

    @functools.cached_property
    def preserves(self) -> bool:
        """Whether fields that the schema does not name are kept."""
        return bool(self.schema.get("x-kubernetes-preserve-unknown-fields"))

    @functools.cached_property
    def embedded(self) -> bool:
        """Whether it is an object of the API of its own."""
        return bool(self.schema.get("x-kubernetes-embedded-resource"))

    @functools.cached_property
    def int_or_string(self) -> bool:
        """Whether it is an int or a string, whatever the type says."""
        return bool(self.schema.get("x-kubernetes-int-or-string"))

    @functools.cached_property
    def list_type(self) -> str:
        """`atomic`, `set` or `map`; empty for atomic."""
        return str(self.schema.get("x-kubernetes-list-type") or "")

    @functools.cached_property
    def map_keys(self) -> tuple[str, ...]:
        """The fields that tell the items of a list of type map apart."""
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @functools.cached_property
    def map_type(self) -> str:
        """`granular` or `atomic`; empty for granular."""
        return str(self.schema.get("x-kubernetes-map-type") or "")

    @functools.cached_property
    def rules(self) -> tuple[Tree, ...]:
        """The expressions that must be true of it."""
        return tuple(self.schema.get("x-kubernetes-validations") or ())

    @functools.cached_property
    def properties(self) -> dict[str, Structural]:
        """The fields that the schema names."""
        return {
            name: Structural(one) for name, one in (self.schema.get("properties") or {}).items()
        }

    @functools.cached_property
    def items(self) -> Structural | None:
        """The items of a list."""
        items = self.schema.get("items")
        return Structural(items) if isinstance(items, dict) else None

    @functools.cached_property
    def open(self) -> bool:
        """Whether it is a map: fields of any name are known."""
        return self.schema.get("additionalProperties") is not None

    @functools.cached_property
    def values(self) -> Structural | None:
        """The values of a map; None where nothing is said of them."""
        values = self.schema.get("additionalProperties")
        return Structural(values) if isinstance(values, dict) else None

    def field(self, name: str) -> Structural | None:
        """The schema of the field or map value of this name."""
        return self.properties.get(name) or self.values


def has_embedded_resources(node: Structural) -> bool:
    """Whether there may be objects of the API below a node; found out once."""
    found: bool | None = node.compiled.get("holds objects")
    if found is None:
        below = [*node.properties.values(), node.items, node.values]
        found = any(
            one is not None and (one.embedded or has_embedded_resources(one)) for one in below
        )
        node.compiled["holds objects"] = found
    return found


def compile(schema: Tree) -> Structural:
    """The node of a schema; cheap, whatever the schema's size. Keep it as long as the schema."""
    return Structural(schema)


def has_rules(node: Structural) -> bool:
    """Whether a node, or one below it, has rules; found out once."""
    known: bool | None = node.compiled.get("has rules")
    if known is None:
        below = [one for one in (node.items, node.values, *node.properties.values()) if one]
        known = bool(node.rules) or any(map(has_rules, below))
        node.compiled["has rules"] = known
    return known
