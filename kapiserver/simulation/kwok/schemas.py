"""Short forms of the OpenAPI schemas of fields, from which the schemas of kwok's kinds are made."""

from __future__ import annotations

from kapiserver.api.types import Tree, Value


def text(description: str, *values: str, default: str | None = None) -> Tree:
    """Return the schema of a string; with values, it is one of them."""
    schema: Tree = {"type": "string", "description": description}
    if values:
        schema["enum"] = list(values)
    return schema | _default(default)


def flag(description: str) -> Tree:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}


def count(description: str, *, default: int | None = None) -> Tree:
    """Return the schema of an integer that is not negative."""
    schema = {"type": "integer", "format": "int64", "minimum": 0, "description": description}
    return schema | _default(default)


def items(description: str, item: Tree) -> Tree:
    """Return the schema of a list."""
    return {"type": "array", "description": description, "items": item}


def texts(description: str) -> Tree:
    """Return the schema of a list of strings."""
    return items(description, {"type": "string"})


def mapping(description: str, value: Tree | None = None) -> Tree:
    """Return the schema of a map from strings to values, by default strings."""
    return {
        "type": "object",
        "description": description,
        "additionalProperties": value or {"type": "string"},
    }


def record(description: str, properties: Tree, *, required: tuple[str, ...] = ()) -> Tree:
    """Return the schema of an object with fields."""
    schema: Tree = {"type": "object", "properties": properties}
    if description:
        schema["description"] = description
    return schema | ({"required": list(required)} if required else {})


def _default(value: Value) -> Tree:
    return {} if value is None else {"default": value}
