"""Custom kinds: the kinds that CustomResourceDefinitions add to a running server.

`CustomKinds` is an immutable snapshot of all of them; the Scheme looks a kind up in the current
snapshot before its own tables. A `Definition` is one served CustomResourceDefinition, a
`CustomVersion` one of its versions. A definition has its names, scope and versions at once; type,
schema, columns and strategies are compiled on first use from the definition's tree, which is
loaded then. Knows no bytes and no store. Mirrors customresource_handler.go of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kapiserver.api.accessors import copy_tree, generation_of, is_terminating, uid_of
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import (
    Deprecation,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
    sort_versions,
)
from kapiserver.api.meta.v1 import ListMeta, ObjectMeta
from kapiserver.api.types import Kind, Tree, field

if TYPE_CHECKING:
    from kapiserver.api.apiextensions.schema.structural import Structural
    from kapiserver.api.apply.merge_schema import Node
    from kapiserver.api.columns import Columns
    from kapiserver.api.selectable_fields import Extractor
    from kapiserver.api.strategy import Strategy

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs in the order of discovery."""
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
"""The verbs that discovery shows while the definition is being deleted. Only `create` is
refused."""
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class Definition:
    """One CustomResourceDefinition whose kind is served.

    summary  its tree, of which schemas and columns are not read and may be missing
    load     returns the whole tree
    """

    def __init__(self, summary: Tree, load: Callable[[], Tree]) -> None:
        spec = summary["spec"]
        self.name: str = summary["metadata"]["name"]
        self.group: str = spec["group"]
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self.names: Tree = dict(summary["status"]["acceptedNames"])
        self.kind: str = self.names["kind"]
        self.list_kind: str = self.names.get("listKind") or f"{self.kind}List"
        self.terminating = is_terminating(summary)
        self.conversion: str = (spec.get("conversion") or {}).get("strategy") or "None"
        self._load = load
        self._versions: Sequence[Tree] = spec["versions"]
        self.storage_version: str = next(
            version["name"] for version in self._versions if version["storage"]
        )
        self.spec_generation = f"{uid_of(summary)}/{generation_of(summary)}"
        self.shape = (self.spec_generation, repr(sorted(self.names.items())))
        """Changes when anything changes that the stores of its objects depend on."""
        self.identity = (*self.shape, self.terminating)
        """Changes when any of these attributes does."""

    @functools.cached_property
    def versions(self) -> Mapping[str, CustomVersion]:
        """The versions by name. They refer to the definition: `release` breaks the cycles."""
        return {version["name"]: CustomVersion(self, version) for version in self._versions}

    def release(self) -> None:
        """Break the reference cycles of a definition that nothing uses any more. Otherwise it would
        stay in memory, with its compiled schemas, until everything is collected."""
        for version in self.versions.values():
            version.release()
        self.versions = {}

    @functools.cached_property
    def spec(self) -> Tree:
        """The whole spec. Shared: never change it."""
        spec: Tree = self._load()["spec"]
        return spec

    @property
    def uses_conversion_webhook(self) -> bool:
        """Whether only a webhook can convert objects to another version."""
        return self.conversion == "Webhook" and len(self.versions) > 1

    @property
    def plural(self) -> str:
        """The plural name, as in paths."""
        plural: str = self.names["plural"]
        return plural

    @property
    def stored_version(self) -> CustomVersion:
        """The version in which objects are stored."""
        return self.versions[self.storage_version]


class CustomVersion:
    """One version of a definition; `summary` is its part of the definition's summary."""

    def __init__(self, definition: Definition, summary: Tree) -> None:
        self.definition = definition
        self.summary = summary
        self.name: str = summary["name"]
        self.served: bool = summary["served"]
        self.is_loaded = False
        self.loaded_uses: set[tuple[str, str, str]] = set()
        self._same_schemas: dict[str, bool] = {}

    @functools.cached_property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.definition.group, self.name)

    @functools.cached_property
    def kind(self) -> GroupVersionKind:
        """The kind of the objects."""
        return self.group_version.with_kind(self.definition.kind)

    is_typed = has_protobuf = False
    verbs: tuple[str, ...] = VERBS

    @property
    def hub(self) -> GroupVersion:
        """The version in which the objects are handled: that of the request."""
        return self.group_version

    @property
    def stored_version(self) -> GroupVersion:
        """The version in which the objects are stored; this version if a webhook converts them
        before decoding."""
        stored = self if self.definition.uses_conversion_webhook else self.definition.stored_version
        return stored.group_version

    @property
    def conversion_webhook(self) -> Definition | None:
        """The definition, if a webhook converts its objects."""
        return self.definition if self.definition.uses_conversion_webhook else None

    @property
    def discovery_verbs(self) -> Sequence[str]:
        """The verbs in the order of discovery."""
        return TERMINATING_VERBS if self.definition.terminating else self.verbs

    @property
    def discovery_subresources(self) -> Sequence[Subresource]:
        """The subresources in the order in which the definition enables them."""
        return self.resource.subresources

    @property
    def is_terminating(self) -> bool:
        """Whether the definition is being deleted."""
        return self.definition.terminating

    @functools.cached_property
    def resource(self) -> Resource:
        """The resource in this version."""
        definition, names = self.definition, self.definition.names
        return Resource(
            group=definition.group,
            name=definition.plural,
            kind=definition.kind,
            list_kind=definition.list_kind,
            namespaced=definition.namespaced,
            versions=(self.name,),
            storage_version=definition.storage_version,
            storage_prefix=f"{definition.group}/{definition.plural}",
            singular=names.get("singular") or definition.kind.lower(),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            verbs=self.verbs,
            subresources=tuple(self._subresources()),
            selectable_fields=self._selectable_fields(),
            deprecations=tuple(self._deprecations()),
            definition=definition.name,
            spec_generation=definition.spec_generation,
        )

    def _subresources(self) -> Iterator[Subresource]:
        subresources = self.summary.get("subresources") or {}
        if subresources.get("status") is not None:
            yield Subresource(name="status", verbs=("get", "patch", "update"))
        if subresources.get("scale") is not None:
            yield Subresource(name="scale", verbs=("get", "patch", "update"), kind=_SCALE)

    def _selectable_fields(self) -> tuple[str, ...]:
        fields = self.summary.get("selectableFields") or ()
        return tuple(field["jsonPath"].removeprefix(".") for field in fields)

    def _deprecations(self) -> Iterator[Deprecation]:
        if not self.summary.get("deprecated"):
            return
        text = self.summary.get("deprecationWarning")
        if text is None:
            text = f"{self.group_version} {self.definition.kind} is deprecated"
            newer = [
                version.name
                for version in self.definition.versions.values()
                if version.served and not version.summary.get("deprecated")
            ]
            order = sort_versions([*newer, self.name])
            if order[0] != self.name:
                text += f"; use {self.definition.group}/{order[0]} {self.definition.kind}"
        yield Deprecation(version=self.name, warning=text)

    @property
    def scale(self) -> Tree | None:
        """The paths of the scale subresource; None without one."""
        paths: Tree | None = (self.summary.get("subresources") or {}).get("scale")
        return paths

    @property
    def has_status(self) -> bool:
        """Whether there is a status subresource."""
        return (self.summary.get("subresources") or {}).get("status") is not None

    # Compiled on first use.

    def load(self) -> None:
        """Compile the parts that every request needs; slow for a large schema."""
        from kapiserver.api.apiextensions.schema import structural

        structural.has_rules(self.structural)
        structural.has_embedded_resources(self.structural)
        self.default_cost(b"")
        self.is_loaded = True

    @functools.cached_property
    def default_cost(self) -> Callable[[bytes], int]:
        """Returns the number of values that defaults may add to an encoded object or patch."""
        from kapiserver.api.apiextensions.schema import defaulting

        return defaulting.size(self.structural).cost

    @functools.cached_property
    def spec(self) -> Tree:
        """The version's part of the spec, schema included. Shared: never change it."""
        versions: list[Tree] = self.definition.spec["versions"]
        return next(version for version in versions if version["name"] == self.name)

    @functools.cached_property
    def schema(self) -> Tree:
        """The schema as the client wrote it."""
        schema: Tree = (self.spec.get("schema") or {}).get("openAPIV3Schema") or {}
        return schema

    def has_same_schema(self, other: CustomVersion) -> bool:
        """Report whether another version of the definition has the same schema."""
        is_equal = self._same_schemas.get(other.name)
        if is_equal is None:
            is_equal = self._same_schemas[other.name] = self.schema == other.schema
        return is_equal

    @functools.cached_property
    def preserves_unknown_fields(self) -> bool:
        """Whether all unknown fields are preserved, which only definitions older than v1 can
        request."""
        return bool(self.definition.spec.get("preserveUnknownFields"))

    @functools.cached_property
    def structural(self) -> Structural:
        """The compiled schema."""
        from kapiserver.api.apiextensions.schema import structural

        return structural.compile(self.schema)

    @functools.cached_property
    def type(self) -> TypeOfObjects:
        """The kind as a type."""
        subclass: TypeOfObjects = subclass_of(CustomKind, self.definition.kind, self)
        return subclass

    @functools.cached_property
    def list_type(self) -> TypeOfLists:
        """The list kind as a type."""
        subclass: TypeOfLists = subclass_of(CustomList, self.definition.list_kind, self)
        return subclass

    def release(self) -> None:
        """Drop the types, which refer to this version. A class itself is a cycle of some objects,
        which a collection frees."""
        for name in ("type", "list_type"):
            type_ = self.__dict__.pop(name, None)
            if type_ is not None:
                del type_.version

    @functools.cached_property
    def merge_node(self) -> Node:
        """The schema of the kind for server-side apply."""
        from kapiserver.api.apiextensions.schema.merge_nodes import object_node

        return object_node(self.structural)

    @functools.cached_property
    def columns(self) -> Columns:
        """The columns of its tables."""
        from kapiserver.api.apiextensions.printer_columns import columns_of

        return columns_of(self.spec.get("additionalPrinterColumns") or ())

    @functools.cached_property
    def field_extractor(self) -> Extractor:
        """The extractor of its selectable fields."""
        from kapiserver.api.selectable_fields import extractor

        return extractor(self.resource, {})

    def default(self, obj: Tree) -> None:
        """Set the defaults of the schema, in place."""
        from kapiserver.api.apiextensions.schema import defaulting

        defaulting.apply(obj, self.structural)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version: with its apiVersion, and without fields unknown to
        it.

        Raises ConversionFailed if the definition converts by webhook, and NotRegistered. Mirrors
        nopConverter of k8s.io/apiextensions-apiserver.
        """
        definition = self.definition
        target = definition.versions.get(version.version)
        if target is None or version.group != definition.group:
            raise NotRegistered.of_kind(version.with_kind(definition.kind))
        if definition.uses_conversion_webhook:
            raise ConversionFailed(f"{definition.name}: only its webhook converts")
        if target.has_same_schema(self):
            return {**obj, "apiVersion": str(version)}
        from kapiserver.api.apiextensions.schema.pruning import prune

        converted: Tree = copy_tree({**obj, "apiVersion": str(version)})
        if not target.preserves_unknown_fields:
            prune(converted, target.structural, [])
        return converted

    def strategy(self, subresource: str = "") -> Strategy:
        """Return the strategy of the objects or of one of their subresources."""
        return self.strategies[subresource]

    @functools.cached_property
    def strategies(self) -> Mapping[str, Strategy]:
        """The strategies, by subresource."""
        from kapiserver.api.apiextensions.custom_strategies import strategies_of

        return strategies_of(self.structural, has_status=self.has_status, scale=self.scale)


class CustomKind(Kind):
    """A custom kind in one version. Its trees have the fields that the schema allows, in any order:
    encoders sort them."""

    wire = False
    declares_fields = False
    version: ClassVar[CustomVersion]

    metadata: ObjectMeta = field(doc="Metadata of the object, which every kind has.")

    @classmethod
    def merge_node(cls) -> Node:
        return cls.version.merge_node


class CustomList(Kind):
    """The list kind of a custom kind in one version."""

    wire = False
    listed = False
    version: ClassVar[CustomVersion]

    metadata: ListMeta = field()


TypeOfObjects: TypeAlias = type[CustomKind]
TypeOfLists: TypeAlias = type[CustomList]


def subclass_of(base: Any, name: str, version: CustomVersion) -> Any:
    """Return the type of a version with that base."""
    return type(name, (base,), {"version": version, "__module__": __name__})


class CustomKinds:
    """All custom kinds that are served at one moment."""

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self._definitions = {definition.name: definition for definition in definitions}
        self._by_kind: dict[tuple[str, str], Definition] = {}
        self._by_plural: dict[tuple[str, str], Definition] = {}
        self._by_group: dict[str, list[Definition]] = {}
        for definition in self._definitions.values():
            self._by_kind[(definition.group, definition.kind)] = definition
            self._by_plural[(definition.group, definition.plural)] = definition
            self._by_group.setdefault(definition.group, []).append(definition)

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)

    def by_name(self, name: str) -> Definition | None:
        """Return the definition of that name, or None."""
        return self._definitions.get(name)

    def with_changes(self, changes: Mapping[str, Definition | None]) -> CustomKinds:
        """Return a snapshot with these definitions, by name, replaced; None removes one."""
        merged = {**self._definitions, **changes}
        return CustomKinds(definition for definition in merged.values() if definition is not None)

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of discovery, versions newest first."""
        return tuple(
            Group(name=name, package="", versions=versions)
            for name in sorted(self._by_group)
            if (versions := self._served_versions(name))
        )

    def _served_versions(self, group: str) -> tuple[str, ...]:
        served = {
            version.name
            for definition in self._by_group[group]
            for version in definition.versions.values()
            if version.served
        }
        return tuple(sort_versions(served))

    def served_versions(self, group: str, plural: str) -> frozenset[str]:
        """Return the served versions of the definition with that plural name; none if unknown."""
        definition = self.by_plural(group, plural)
        versions = definition.versions.values() if definition is not None else ()
        return frozenset(version.name for version in versions if version.served)

    def has_group(self, name: str) -> bool:
        """Report whether the group serves any kind."""
        return name in self._by_group

    def resources(self, group: str) -> tuple[Resource, ...]:
        """Return the group's resources, one for each served version, by name."""
        definitions = sorted(
            self._by_group.get(group, ()), key=lambda definition: definition.plural
        )
        return tuple(
            version.resource
            for definition in definitions
            for version in definition.versions.values()
            if version.served
        )

    def stored_resources(self) -> Iterator[Resource]:
        """Yield the resource of each definition in its storage version."""
        return (definition.stored_version.resource for definition in self._definitions.values())

    def by_plural(self, group: str, plural: str) -> Definition | None:
        """Return the definition with that plural name, or None."""
        return self._by_plural.get((group, plural))

    def by_kind(self, group: str, kind: str) -> Definition | None:
        """Return the definition of a kind or list kind, or None."""
        definition = self._by_kind.get((group, kind))
        if definition is None and kind.endswith("List"):
            others = self._by_group.get(group, ())
            return next((other for other in others if other.list_kind == kind), None)
        return definition

    def version_of(self, kind: GroupVersionKind) -> CustomVersion | None:
        """Return the version, served or not, of a kind of object; None if unknown."""
        definition = self._by_kind.get((kind.group, kind.kind))
        return None if definition is None else definition.versions.get(kind.version)

    def type_of(self, kind: GroupVersionKind) -> type[Kind] | None:
        """Return the type of a kind of object or list; None if unknown."""
        if kind.group not in self._by_group:
            return None
        definition = self.by_kind(kind.group, kind.kind)
        version = None if definition is None else definition.versions.get(kind.version)
        if definition is None or version is None:
            return None
        return version.type if definition.kind == kind.kind else version.list_type


def version_of_resource(resource: Resource, kinds: CustomKinds) -> CustomVersion | None:
    """Return the version of a custom resource; None if its definition no longer exists."""
    crd = kinds.by_name(resource.definition)
    return None if crd is None else crd.versions.get(resource.versions[0])


NONE = CustomKinds()
"""No custom kinds."""
