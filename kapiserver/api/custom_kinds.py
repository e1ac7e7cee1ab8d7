"""Custom kinds: what CustomResourceDefinitions add to the kinds of a server while it runs.

A `CustomKinds` is one state of all of them, never changed: the Scheme asks the present one before
its own tables. A `Definition` is one CustomResourceDefinition that is served, a `CustomVersion`
one version of it; what is known from the names alone is at hand, all else (type, schema, columns,
strategies) is compiled when first needed, from the definition's tree, which nobody keeps until
then. Knows no bytes and no store. Mirrors customresource_handler.go of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kapiserver.api.accessors import generation_of, is_terminating, uid_of
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
    from kapiserver.api.apiextensions.structural import Structural
    from kapiserver.api.columns import Columns
    from kapiserver.api.merge_schema import Node
    from kapiserver.api.selectable_fields import Extractor
    from kapiserver.api.strategy import Strategy

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which discovery shows them."""
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
"""What discovery shows while the definition is being deleted; nothing but `create` is refused."""
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class Definition:
    """One CustomResourceDefinition whose kind is served.

    head    its tree; nothing is read of schemas and columns, which may be missing
    load    gives the whole tree
    """

    def __init__(self, head: Tree, load: Callable[[], Tree]) -> None:
        spec = head["spec"]
        self.name: str = head["metadata"]["name"]
        self.group: str = spec["group"]
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self.names: Tree = dict(head["status"]["acceptedNames"])
        self.kind: str = self.names["kind"]
        self.list_kind: str = self.names.get("listKind") or f"{self.kind}List"
        self.terminating = is_terminating(head)
        self.conversion: str = (spec.get("conversion") or {}).get("strategy") or "None"
        self._load = load
        heads = spec["versions"]
        self.versions: Mapping[str, CustomVersion] = {
            one["name"]: CustomVersion(self, one) for one in heads
        }
        self.storage_version: str = next(one["name"] for one in heads if one["storage"])
        self.spec_hash = f"{uid_of(head)}/{generation_of(head)}"
        self.shape = (self.spec_hash, _names_text(self.names))
        """What changes with all that its objects' stores depend on."""
        self.identity = (*self.shape, self.terminating)
        """What changes with all that matters here."""

    @functools.cached_property
    def spec(self) -> Tree:
        """The whole spec; shared."""
        spec: Tree = self._load()["spec"]
        return spec

    @property
    def uses_conversion_webhook(self) -> bool:
        """Whether there is more to another version of an object than its name, which only a
        webhook knows."""
        return self.conversion == "Webhook" and len(self.versions) > 1

    @property
    def plural(self) -> str:
        """Its name in paths."""
        plural: str = self.names["plural"]
        return plural

    @property
    def stored_version(self) -> CustomVersion:
        """The version in which objects are stored."""
        return self.versions[self.storage_version]


def _names_text(names: Tree) -> str:
    return repr(sorted(names.items()))


class CustomVersion:
    """One version of a definition; `head` is its part of the definition's."""

    def __init__(self, definition: Definition, head: Tree) -> None:
        self.definition = definition
        self.head = head
        self.name: str = head["name"]
        self.served: bool = head["served"]
        self.is_compiled = False
        self._like: dict[str, bool] = {}

    @property
    def group_version(self) -> GroupVersion:
        """Its group and version."""
        return GroupVersion(self.definition.group, self.name)

    is_typed = False

    @property
    def is_terminating(self) -> bool:
        """Whether the definition is being deleted."""
        return self.definition.terminating

    @functools.cached_property
    def resource(self) -> Resource:
        """The resource in this version, as everything else is derived from."""
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
            verbs=VERBS,
            subresources=tuple(self._subresources()),
            selectable_fields=self._selectable_fields(),
            deprecations=tuple(self._deprecations()),
            definition=definition.name,
            spec_hash=definition.spec_hash,
        )

    def _subresources(self) -> Iterator[Subresource]:
        declared = self.head.get("subresources") or {}
        if declared.get("status") is not None:
            yield Subresource(name="status", verbs=("get", "patch", "update"))
        if declared.get("scale") is not None:
            yield Subresource(name="scale", verbs=("get", "patch", "update"), kind=_SCALE)

    def _selectable_fields(self) -> tuple[str, ...]:
        found = self.head.get("selectableFields") or ()
        return tuple(one["jsonPath"].removeprefix(".") for one in found)

    def _deprecations(self) -> Iterator[Deprecation]:
        if not self.head.get("deprecated"):
            return
        text = self.head.get("deprecationWarning")
        if text is None:
            text = f"{self.group_version} {self.definition.kind} is deprecated"
            better = [
                one.name
                for one in self.definition.versions.values()
                if one.served and not one.head.get("deprecated")
            ]
            order = sort_versions([*better, self.name])
            if order[0] != self.name:
                text += f"; use {self.definition.group}/{order[0]} {self.definition.kind}"
        yield Deprecation(version=self.name, warning=text)

    @property
    def scale(self) -> Tree | None:
        """Where the numbers of its scale are; None where it has no scale."""
        found: Tree | None = (self.head.get("subresources") or {}).get("scale")
        return found

    @property
    def has_status(self) -> bool:
        """Whether the status is written by itself."""
        return (self.head.get("subresources") or {}).get("status") is not None

    # Compiled when first needed.

    def compile(self) -> None:
        """Compile what every request needs: that takes long for a large schema."""
        from kapiserver.api.apiextensions import structural

        structural.has_rules(self.structural)
        structural.holds_objects(self.structural)
        self.is_compiled = True

    @functools.cached_property
    def spec(self) -> Tree:
        """The version as the definition has it, schema included; shared."""
        versions: list[Tree] = self.definition.spec["versions"]
        return next(one for one in versions if one["name"] == self.name)

    @functools.cached_property
    def schema(self) -> Tree:
        """The schema as it was written."""
        schema: Tree = (self.spec.get("schema") or {}).get("openAPIV3Schema") or {}
        return schema

    def has_same_schema(self, other: CustomVersion) -> bool:
        """Whether another version of the definition has the same schema."""
        known = self._like.get(other.name)
        if known is None:
            known = self._like[other.name] = self.schema == other.schema
        return known

    @functools.cached_property
    def preserves_unknown_fields(self) -> bool:
        """Whether no field is unknown: definitions older than v1 could say so."""
        return bool(self.definition.spec.get("preserveUnknownFields"))

    @functools.cached_property
    def structural(self) -> Structural:
        """The schema, compiled."""
        from kapiserver.api.apiextensions import structural

        return structural.compile(self.schema)

    @functools.cached_property
    def type(self) -> TypeOfObjects:
        """The kind as a type."""
        found: TypeOfObjects = _subclass(CustomKind, self.definition.kind, self)
        return found

    @functools.cached_property
    def list_type(self) -> TypeOfLists:
        """The kind of its lists as a type."""
        found: TypeOfLists = _subclass(CustomList, self.definition.list_kind, self)
        return found

    @functools.cached_property
    def merge_node(self) -> Node:
        """What server-side apply must know of it."""
        from kapiserver.api.apiextensions.merge_nodes import object_node

        return object_node(self.structural)

    @functools.cached_property
    def columns(self) -> Columns:
        """The columns of its tables."""
        from kapiserver.api.apiextensions.printer_columns import columns_of

        return columns_of(self.spec.get("additionalPrinterColumns") or ())

    @functools.cached_property
    def fields(self) -> Extractor:
        """What reads its selectable fields."""
        from kapiserver.api.selectable_fields import extractor

        return extractor(self.resource, {})

    def strategy(self, subresource: str = "") -> Strategy:
        """Return how writes of the objects, or of one of their subresources, behave."""
        return self.strategies[subresource]

    @functools.cached_property
    def strategies(self) -> Mapping[str, Strategy]:
        """How writes behave, by subresource."""
        from kapiserver.api.apiextensions.custom_strategies import strategies_of

        return strategies_of(self.structural, has_status=self.has_status, scale=self.scale)


class CustomKind(Kind):
    """A custom kind in one version. Its trees hold what the version's schema lets through; the
    order of their keys means nothing: whoever writes them sorts them."""

    wire = False
    version: ClassVar[CustomVersion]

    metadata: ObjectMeta = field(doc="Standard object metadata.")

    @classmethod
    def merge_node(cls) -> Node:
        return cls.version.merge_node


class CustomList(Kind):
    """The lists of a custom kind in one version."""

    wire = False
    listed = False
    version: ClassVar[CustomVersion]

    metadata: ListMeta = field()


TypeOfObjects: TypeAlias = type[CustomKind]
TypeOfLists: TypeAlias = type[CustomList]


def _subclass(base: Any, name: str, version: CustomVersion) -> Any:
    return type(name, (base,), {"version": version, "__module__": __name__})


class CustomKinds:
    """All that are served at one moment."""

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self._definitions = {one.name: one for one in definitions}
        self._by_kind: dict[tuple[str, str], Definition] = {}
        self._by_plural: dict[tuple[str, str], Definition] = {}
        self._by_group: dict[str, list[Definition]] = {}
        for one in self._definitions.values():
            self._by_kind[(one.group, one.kind)] = one
            self._by_plural[(one.group, one.plural)] = one
            self._by_group.setdefault(one.group, []).append(one)

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)

    def by_name(self, name: str) -> Definition | None:
        """The definition of that name."""
        return self._definitions.get(name)

    def with_changes(self, changes: Mapping[str, Definition | None]) -> CustomKinds:
        """The state in which these definitions, by name, are as given; None: gone."""
        merged = {**self._definitions, **changes}
        return CustomKinds(one for one in merged.values() if one is not None)

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order in which discovery shows them, versions newest first."""
        return tuple(
            Group(name=name, package="", versions=versions)
            for name in sorted(self._by_group)
            if (versions := self._served_versions(name))
        )

    def _served_versions(self, group: str) -> tuple[str, ...]:
        served = {
            version.name
            for one in self._by_group[group]
            for version in one.versions.values()
            if version.served
        }
        return tuple(sort_versions(served))

    def has_group(self, name: str) -> bool:
        """Whether any kind of a group is served."""
        return name in self._by_group

    def resources(self, group: str) -> tuple[Resource, ...]:
        """The group's resources, one for each version that is served, by name."""
        definitions = sorted(self._by_group.get(group, ()), key=lambda one: one.plural)
        return tuple(
            version.resource
            for one in definitions
            for version in one.versions.values()
            if version.served
        )

    def stored_resources(self) -> Iterator[Resource]:
        """The resource of each definition in the version in which objects are stored."""
        return (one.stored_version.resource for one in self._definitions.values())

    def by_plural(self, group: str, plural: str) -> Definition | None:
        """The definition with that name in paths."""
        return self._by_plural.get((group, plural))

    def by_kind(self, group: str, kind: str) -> Definition | None:
        """The definition of a kind, or of its lists."""
        found = self._by_kind.get((group, kind))
        if found is None and kind.endswith("List"):
            for one in self._by_group.get(group, ()):
                if one.list_kind == kind:
                    return one
        return found

    def version_of(self, kind: GroupVersionKind) -> CustomVersion | None:
        """The version of a definition that a kind of object is in, served or not."""
        found = self._by_kind.get((kind.group, kind.kind))
        return None if found is None else found.versions.get(kind.version)

    def type_of(self, kind: GroupVersionKind) -> type[Kind] | None:
        """The type of a kind of object, or of their lists."""
        found = self.by_kind(kind.group, kind.kind)
        version = None if found is None else found.versions.get(kind.version)
        if found is None or version is None:
            return None
        return version.type if found.kind == kind.kind else version.list_type


def version_of_resource(resource: Resource, kinds: CustomKinds) -> CustomVersion | None:
    """The version that a custom resource is of; None when it is gone."""
    found = kinds.by_name(resource.definition)
    return None if found is None else found.versions.get(resource.versions[0])


NONE = CustomKinds()
"""No custom kinds."""
