"""Schemas of declared types, for OpenAPI v3 and v2. Knows no path and no request.

Names of schemas are those of Kubernetes' own documents, by which generated clients know them.
Mirrors kube-openapi's definitions of k8s.io/api.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import (
    Field,
    Leaf,
    ListOf,
    MapOf,
    Message,
    Scalar,
    Shape,
    Tree,
    Type,
)

Dialect = Literal["v2", "v3"]

_PREFIX = {"v3": "#/components/schemas/", "v2": "#/definitions/"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_ELSEWHERE = {
    "Quantity": "io.k8s.apimachinery.pkg.api.resource",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr",
    "RawExtension": "io.k8s.apimachinery.pkg.runtime",
}
"""Leaves that are declared outside of meta/v1 in Go."""

_SCALARS: Mapping[str, Tree] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {},
}
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_TYPE_META = {
    "kind": "Which kind of object this is. Set by the server from the path; cannot be changed.",
    "apiVersion": "The version of the schema in which the object is written.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schemas:
    """Schemas of types and of all that they hold.

    kinds   what each kind says it is; others have no x-kubernetes-group-version-kind
    """

    dialect: Dialect
    kinds: Mapping[type[Type], tuple[GroupVersionKind, ...]]

    def ref(self, type_: type[Type]) -> Tree:
        """A reference to the schema of a type."""
        return {"$ref": _PREFIX[self.dialect] + schema_name(type_)}

    def collect(self, roots: Iterable[type[Type]]) -> Tree:
        """The schemas of the roots and of every type below them, by name, sorted."""
        found: dict[str, Tree] = {}
        waiting = deque(roots)
        while waiting:
            type_ = waiting.popleft()
            name = schema_name(type_)
            if name in found:
                continue
            if issubclass(type_, Leaf):
                found[name] = self._leaf(type_)
                continue
            found[name] = self._object(type_)
            waiting.extend(_messages(type_))
        return dict(sorted(found.items()))

    def _leaf(self, type_: type[Leaf]) -> Tree:
        schema = dict(type_.openapi)
        if self.dialect == "v2" and "oneOf" in schema:  # which v2 cannot say
            schema = {"type": "string"}
            if type_.__name__ == "IntOrString":
                schema["format"] = "int-or-string"
        return _described(inspect.getdoc(type_) or "", schema)

    def _object(self, type_: type[Type]) -> Tree:
        properties: Tree = {}
        required = []
        for flat in type_.flat_fields():
            properties[flat.field.name] = self._property(flat.field)
            if flat.field.declaration.required:
                required.append(flat.field.name)
        schema = _described(inspect.getdoc(type_) or "", {"type": "object"})
        if properties:
            schema["properties"] = dict(sorted(properties.items()))
        if required:
            schema["required"] = sorted(required)
        if type_.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        kinds = self.kinds.get(type_)
        if kinds:
            schema["x-kubernetes-group-version-kind"] = [
                {"group": one.group, "kind": one.kind, "version": one.version} for one in kinds
            ]
        return schema

    def _property(self, field: Field) -> Tree:
        declaration = field.declaration
        schema = self._shape(field.shape)
        if isinstance(field.shape, Message) and "$ref" in schema and self.dialect == "v3":
            # A reference stands alone: what else is to be said goes beside it.
            schema = {"allOf": [schema]}
            if not (field.pointer or issubclass(field.shape.type, Leaf)):
                schema["default"] = {}
        if isinstance(field.shape, Scalar) and declaration.always and not field.pointer:
            schema["default"] = _ZEROS.get(field.shape.name, "")
        if declaration.default is not None:
            schema["default"] = declaration.default
        if declaration.enum:
            schema["enum"] = sorted(declaration.enum)
        schema |= _extensions(field)
        return _described(declaration.doc or _TYPE_META.get(field.name, ""), schema)

    def _shape(self, shape: Shape) -> Tree:
        if isinstance(shape, Scalar):
            return dict(_SCALARS[shape.name])
        if isinstance(shape, ListOf):
            return {"type": "array", "items": self._item(shape.item)}
        if isinstance(shape, MapOf):
            return {"type": "object", "additionalProperties": self._item(shape.value)}
        if _is_inline(shape.type):
            return dict(shape.type.openapi)
        return self.ref(shape.type)

    def _item(self, shape: Shape) -> Tree:
        schema = self._shape(shape)
        if self.dialect == "v2":
            return schema
        if "$ref" in schema:
            is_leaf = isinstance(shape, Message) and issubclass(shape.type, Leaf)
            return {"allOf": [schema]} if is_leaf else {"allOf": [schema], "default": {}}
        if isinstance(shape, Scalar) and shape.name in _ZEROS:
            schema["default"] = _ZEROS[shape.name]
        return schema


def _extensions(field: Field) -> Tree:
    """How lists merge: in server-side apply, and in a strategic merge patch."""
    declaration = field.declaration
    found: Tree = {}
    if isinstance(field.shape, ListOf):
        if declaration.keys:
            found["x-kubernetes-list-map-keys"] = list(declaration.keys)
        found["x-kubernetes-list-type"] = (
            "map" if declaration.keys else "set" if declaration.set else "atomic"
        )
    elif declaration.atomic:
        found["x-kubernetes-map-type"] = "atomic"
    if declaration.merge:
        found["x-kubernetes-patch-merge-key"] = declaration.merge
    strategies = ["merge"] if declaration.merge is not None else []
    strategies += [declaration.patch] if declaration.patch else []
    if strategies:
        found["x-kubernetes-patch-strategy"] = ",".join(strategies)
    return found


def _described(text: str, schema: Tree) -> Tree:
    return {"description": text, **schema} if text else schema


def _messages(type_: type[Type]) -> list[type[Type]]:
    """The types that the fields of a type refer to."""
    found = []
    for flat in type_.flat_fields():
        shape: Any = flat.field.shape
        while isinstance(shape, ListOf | MapOf):
            shape = shape.item if isinstance(shape, ListOf) else shape.value
        if isinstance(shape, Message) and not _is_inline(shape.type):
            found.append(shape.type)
    return found


def _is_inline(type_: type[Type]) -> TypeGuard[type[Leaf]]:
    return issubclass(type_, Leaf) and type_.openapi.get("type") == "array"


def schema_name(type_: type[Type]) -> str:
    """`io.k8s.api.core.v1.Pod`."""
    if issubclass(type_, Leaf):
        return f"{_ELSEWHERE.get(type_.__name__, _META)}.{type_.__name__}"
    parts = type_.__module__.split(".")  # kapiserver api <package> <version> ...
    if parts[2] == "meta":
        return f"{_META}.{type_.__name__}"
    return f"io.k8s.api.{parts[2]}.{parts[3]}.{type_.__name__}"
