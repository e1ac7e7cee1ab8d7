"""Builds the schemas of declared types for OpenAPI v3 and v2. Knows no path and no request.

Schemas have the names of Kubernetes' own documents, which generated clients rely on. Mirrors
kube-openapi's definitions of k8s.io/api.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeGuard

from msgspec import Struct

from kapiserver.api.custom_kinds import CustomKind, CustomList
from kapiserver.api.group import CORE, GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    Field,
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    description,
)
from kapiserver.apiserver.discovery import openapi_custom
from kapiserver.apiserver.discovery.openapi_descriptions import TYPE_META
from kapiserver.apiserver.discovery.openapi_operations import PATCH, STRING, VERSION_INFO, TypeOf

Dialect = Literal["v2", "v3"]
Ref: TypeAlias = Callable[[GroupVersionKind], Tree]
"""Returns a reference to the schema of a kind."""

_PREFIX = {"v3": "#/components/schemas/", "v2": "#/definitions/"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SCALAR_PACKAGES = {
    "Quantity": "io.k8s.apimachinery.pkg.api.resource",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr",
    "RawExtension": "io.k8s.apimachinery.pkg.runtime",
}
"""Packages of scalar types that Go declares outside of meta/v1."""
_PACKAGES = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "custom_metrics": "io.k8s.metrics.pkg.apis.custom_metrics",
    "external_metrics": "io.k8s.metrics.pkg.apis.external_metrics",
    "metrics": "io.k8s.metrics.pkg.apis.metrics",
}
"""Packages of groups that Go declares outside of k8s.io/api."""
_ALL_VERSIONS_KINDS = ("DeleteOptions", "WatchEvent")
"""Kinds of meta/v1 that are registered in all group-versions."""
_UNVERSIONED = ("meta.k8s.io", "apidiscovery.k8s.io", "audit.k8s.io")

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

_UNIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "io.k8s.api.core.v1.AppArmorProfile": ("type", ("localhostProfile",)),
    "io.k8s.api.core.v1.PodSchedulingGroup": ("", ("podGroupName",)),
    "io.k8s.api.core.v1.SeccompProfile": ("type", ("localhostProfile",)),
    "io.k8s.api.flowcontrol.v1.LimitResponse": ("type", ("queuing",)),
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec": ("type", ("exempt", "limited")),
    "io.k8s.api.flowcontrol.v1.Subject": ("kind", ("group", "serviceAccount", "user")),
    "io.k8s.api.lifecycle.v1alpha1.EvictionRequestTarget": ("", ("pod",)),
    "io.k8s.api.lifecycle.v1alpha1.EvictionTarget": ("", ("pod",)),
    **{
        f"io.k8s.api.scheduling.{version}.{name}": ("", members)
        for version in ("v1alpha3", "v1beta1")
        for name, members in {
            "CompositeDisruptionMode": ("all", "single"),
            "CompositePodGroupSchedulingPolicy": ("basic", "gang"),
            "DisruptionMode": ("all", "single"),
            "PodGroupSchedulingPolicy": ("basic", "gang"),
            "WorkloadCompositePodGroupDisruptionMode": ("all", "single"),
            "WorkloadCompositePodGroupSchedulingPolicy": ("basic", "gang"),
            "WorkloadPodGroupDisruptionMode": ("all", "single"),
            "WorkloadPodGroupSchedulingPolicy": ("basic", "gang"),
        }.items()
    },
}
"""Union types: the discriminator field ("" without one) and the member fields."""

_INFO_FIELDS = (
    "major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion",
    "compiler", "platform",
)  # fmt: skip
_INFO_OPTIONAL = (
    "emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor",
)  # fmt: skip
_UNDECLARED: Mapping[GroupVersionKind, tuple[str, Tree]] = {
    PATCH: (
        f"{_META}.Patch",
        {
            "description": (
                "A patch of an object. The Content-Type of the request names its form: JSON patch, "
                "JSON merge patch, strategic merge patch or server-side apply."
            ),
            "type": "object",
        },
    ),
    VERSION_INFO: (
        "io.k8s.apimachinery.pkg.version.Info",
        {
            "description": "The Kubernetes version that the server implements.",
            "type": "object",
            "required": list(_INFO_FIELDS),
            "properties": {
                name: {"type": "string"} for name in sorted((*_INFO_FIELDS, *_INFO_OPTIONAL))
            },
        },
    ),
}
"""The names of kinds without a declared type, and their schemas."""


class Schemas(Struct, frozen=True):
    """Builds schemas in one dialect of OpenAPI.

    groups          names of groups by package below `api`
    versions        the versions of kinds that are registered in all of them
    """

    dialect: Dialect
    groups: Mapping[str, str]
    versions: Sequence[GroupVersion]

    def reference(self, name: str) -> Tree:
        """Return a reference to the schema of that name."""
        return {"$ref": _PREFIX[self.dialect] + name}

    def ref(self, type_: type[Type]) -> Tree:
        """Return a reference to the schema of a type."""
        return self.reference(schema_name(type_))

    def collect(self, roots: Iterable[type[Type]]) -> Tree:
        """Return the schemas of the roots and of every type that they refer to, by name."""
        schemas: dict[str, Tree] = {}
        queue = deque(roots)
        while queue:
            type_ = queue.popleft()
            name = schema_name(type_)
            if name not in schemas:
                schemas[name] = self.schema(type_)
                queue.extend(referenced_types(type_))
        return schemas

    def schema(self, type_: type[Type]) -> Tree:
        """Return the schema of a type."""
        if issubclass(type_, ScalarType):
            return self._scalar_schema(type_)
        if issubclass(type_, CustomKind):
            return openapi_custom.object_schema(type_.version, self.ref, self.dialect)
        if issubclass(type_, CustomList):
            return openapi_custom.list_schema(type_.version, self.ref, self.dialect)
        return self._object_schema(type_)

    def _scalar_schema(self, type_: type[ScalarType]) -> Tree:
        schema = dict(type_.openapi)
        if self.dialect == "v2" and "oneOf" in schema:  # v2 has no oneOf
            schema = {"type": "string"}
            if type_.__name__ == "IntOrString":
                schema["format"] = "int-or-string"
        return _with_description(description(type_), schema)

    def _object_schema(self, type_: type[Type]) -> Tree:
        properties: Tree = {}
        required = []
        for flat in type_.flat_fields():
            properties[flat.field.name] = self._property_schema(flat.field)
            if flat.field.name == "items" and issubclass(type_, Kind):  # a list of objects
                properties["items"].pop("x-kubernetes-list-type", None)
            if flat.field.options.required:
                required.append(flat.field.name)
        schema = _with_description(description(type_), {"type": "object"})
        if required:
            schema["required"] = required
        if properties:
            schema["properties"] = dict(sorted(properties.items()))
        if type_.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        union = _UNIONS.get(schema_name(type_))
        if union:
            schema["x-kubernetes-unions"] = [_union(*union)]
        kinds = self._kinds(type_)
        if kinds:
            schema["x-kubernetes-group-version-kind"] = [
                {"group": kind.group, "kind": kind.kind, "version": kind.version} for kind in kinds
            ]
        return schema

    def _kinds(self, type_: type[Type]) -> list[GroupVersionKind]:
        """Return the kinds that objects of the type may have."""
        if not (issubclass(type_, Kind) or type_.__name__ in _ALL_VERSIONS_KINDS):
            return []
        _, _, package, version, *_ = type_.__module__.split(".")
        if package != "meta":
            return [GroupVersionKind(self.groups[package], version, type_.__name__)]
        versions = self.versions if type_.__name__ in _ALL_VERSIONS_KINDS else (CORE,)
        return [version.with_kind(type_.__name__) for version in versions]

    def _property_schema(self, field: Field) -> Tree:
        options = field.options
        schema = self._shape_schema(field.shape)
        keywords: Tree = {}
        default = _default(field) if self.dialect == "v3" else None
        if default is not None:
            keywords["default"] = default
        if options.enum:
            part = schema.get("items") or schema.get("additionalProperties") or keywords
            part["enum"] = sorted(options.enum)
        keywords |= _extensions(field)
        text = options.doc or TYPE_META.get(field.name, "")
        return _with_description(
            text, self._with_keywords(schema, keywords, has_description=bool(text))
        )

    def _with_keywords(self, schema: Tree, keywords: Tree, *, has_description: bool) -> Tree:
        if self.dialect == "v3" and "$ref" in schema and (keywords or has_description):
            schema = {"allOf": [schema]}  # in v3 a reference has no siblings
        return schema | keywords

    def _shape_schema(self, shape: Shape) -> Tree:
        if isinstance(shape, Scalar):
            return dict(_SCALARS[shape.name])
        if isinstance(shape, ListOf):
            return {"type": "array", "items": self._shape_schema(shape.item)}
        if isinstance(shape, MapOf):
            return {"type": "object", "additionalProperties": self._shape_schema(shape.value)}
        if _is_inline(shape.type):
            return dict(shape.type.openapi)
        return self.ref(shape.type)


def schemas_of(scheme: Scheme, dialect: Dialect, versions: Sequence[GroupVersion]) -> Schemas:
    """Return the builder of the schemas of a scheme's types; see Schemas."""
    groups = {group.package: group.name for group in scheme.declared_groups}
    return Schemas(dialect, groups, versions)


def all_versions(scheme: Scheme) -> list[GroupVersion]:
    """Return all group-versions that have types, sorted."""
    return sorted(
        GroupVersion(group.name, version)
        for group in scheme.declared_groups
        if group.name not in _UNVERSIONED
        for version in group.declared_versions
    )


def _default(field: Field) -> Any:
    """Return the default of a field, or None."""
    if field.options.default is not None:
        return field.options.default
    if field.pointer:
        return None
    if isinstance(field.shape, Scalar):
        return _ZEROS.get(field.shape.name) if field.options.always else None
    if isinstance(field.shape, Message) and not issubclass(field.shape.type, ScalarType):
        return {}
    return None


def _union(discriminator: str, members: Sequence[str]) -> Tree:
    union: Tree = {"discriminator": discriminator} if discriminator else {}
    names = {name: name[:1].upper() + name[1:] for name in members}
    return union | {"fields-to-discriminateBy": names}


def _extensions(field: Field) -> Tree:
    """Return the keywords for merging in server-side apply and in a strategic merge patch."""
    options = field.options
    extensions: Tree = {}
    if isinstance(field.shape, ListOf):
        if options.keys:
            extensions["x-kubernetes-list-map-keys"] = list(options.keys)
        extensions["x-kubernetes-list-type"] = (
            "map" if options.keys else "set" if options.set else "atomic"
        )
    elif options.atomic:
        extensions["x-kubernetes-map-type"] = "atomic"
    if options.merge:
        extensions["x-kubernetes-patch-merge-key"] = options.merge
    strategies = ["merge"] if options.merge is not None else []
    strategies += [options.patch] if options.patch else []
    if strategies:
        extensions["x-kubernetes-patch-strategy"] = ",".join(strategies)
    return extensions


def _with_description(text: str, schema: Tree) -> Tree:
    return {"description": text, **schema} if text else schema


def references_to(type_of: TypeOf, schemas: Schemas) -> Ref:
    """Return the function that refers to the schema of a kind."""

    @functools.cache
    def ref(kind: GroupVersionKind) -> Tree:
        if kind == STRING:
            return {"type": "string"}
        if kind in _UNDECLARED:
            return schemas.reference(_UNDECLARED[kind][0])
        return schemas.ref(type_of(kind))

    return ref


def undeclared_of(kinds: Iterable[GroupVersionKind]) -> Tree:
    """Return the schemas of those kinds that have no declared type, by name."""
    return dict(_UNDECLARED[kind] for kind in kinds if kind in _UNDECLARED)


def types_of(kinds: Iterable[GroupVersionKind], type_of: TypeOf) -> list[type[Type]]:
    """Return the types of those kinds that have one, in the order of the kinds."""
    return [type_of(kind) for kind in sorted(kinds) if kind not in _UNDECLARED and kind != STRING]


def referenced_types(type_: type[Type]) -> list[type[Type]]:
    """Return the types that the fields of a type, or the items of a list, refer to."""
    if issubclass(type_, ScalarType):
        return []
    types: list[type[Type]] = [type_.version.type] if issubclass(type_, CustomList) else []
    for flat in type_.flat_fields():
        shape: Any = flat.field.shape
        while isinstance(shape, ListOf | MapOf):
            shape = shape.item if isinstance(shape, ListOf) else shape.value
        if isinstance(shape, Message) and not _is_inline(shape.type):
            types.append(shape.type)
    return types


def _is_inline(type_: type[Type]) -> TypeGuard[type[ScalarType]]:
    return issubclass(type_, ScalarType) and type_.openapi.get("type") == "array"


def schema_name(type_: type[Type]) -> str:
    """Return the name of a type's schema, such as `io.k8s.api.core.v1.Pod`."""
    if issubclass(type_, CustomKind | CustomList):
        return openapi_custom.schema_name(type_.version, type_.__name__)
    parts = type_.__module__.split(".")  # kapiserver api <package> <version> ...
    if parts[1] != "api":  # made at run time
        return f"{type_.package}.{type_.__name__}"
    if parts[2] in ("meta", "scalar_types", "quantity", "runtime"):
        return f"{_SCALAR_PACKAGES.get(type_.__name__, _META)}.{type_.__name__}"
    package = _PACKAGES.get(parts[2], f"io.k8s.api.{parts[2]}")
    return f"{package}.{parts[3]}.{type_.__name__}"
