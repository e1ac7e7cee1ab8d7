"""Built-in kinds: lookup in the literal tables of the API groups by group, version and name.

`BuiltinKinds` has all tables. A group's modules load on first use, so making one costs nothing and
does not grow with the number of kinds. `BuiltinKind` is the KindInfo of one resource in one
version; `BuiltinObjects` is the ObjectInfo of any kind, with or without a resource. Immutable.
Knows no custom kind, no bytes and no store.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from kapiserver.api.accessors import kind_of
from kapiserver.api.columns import DEFAULT_COLUMNS, Columns
from kapiserver.api.conversion import Conversion, Convert
from kapiserver.api.defaulting import Defaults, DefaultTable, compile_defaults
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import (
    HUB,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
    sort_versions,
)
from kapiserver.api.groups import DECLARED_GROUPS, META
from kapiserver.api.releases import resource_at, stored_compatibly, versions_served_again
from kapiserver.api.selectable_fields import Extractor, extractor
from kapiserver.api.strategy import StatusStrategy, Strategy, default_strategy
from kapiserver.api.types import Kind, Tree

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def _cached_method(
    size: int | None = None,
) -> Callable[
    [Callable[Concatenate[Any, _Params], _Result]],
    functools.cached_property[Callable[_Params, _Result]],
]:
    """Cache the last `size` results of a method in its object. A cache in the class would keep the
    object alive, and so every server of a test process."""

    def decorate(
        method: Callable[Concatenate[Any, _Params], _Result],
    ) -> functools.cached_property[Callable[_Params, _Result]]:
        def cached_method(owner: Any) -> Any:
            return functools.lru_cache(size)(functools.partial(method, owner))

        return functools.cached_property(cached_method)

    return decorate


class BuiltinObjects:
    """The objects of one built-in kind in one version."""

    __slots__ = ("_kinds", "kind")

    is_typed = has_protobuf = True
    conversion_webhook = None

    def __init__(self, kind: GroupVersionKind, kinds: BuiltinKinds) -> None:
        self.kind = kind
        self._kinds = kinds

    @property
    def columns(self) -> Columns:
        """The table columns, for objects in the hub version."""
        return self._kinds.columns(self.kind.group, self.kind.kind)

    def default(self, obj: Tree) -> None:
        """Set the declared defaults and those of the group's functions, in place. Raises
        NotRegistered."""
        self._kinds.default(obj, self.kind)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version. Raises NotRegistered and ConversionFailed."""
        return self._kinds.convert(obj, version)


class BuiltinKind(BuiltinObjects):
    """One built-in resource in one version."""

    is_terminating = False
    scale = None

    def __init__(
        self, resource: Resource, group_version: GroupVersion, kinds: BuiltinKinds
    ) -> None:
        super().__init__(group_version.with_kind(resource.kind), kinds)
        self.resource = resource
        self.group_version = group_version
        self.is_loaded, self.loaded_uses = False, set[tuple[str, str, str]]()
        self._strategies: dict[str, Strategy] = {}

    def load(self) -> None:
        """Import the types. The first request of each use loads the rest."""
        for version in (self.group_version, self.hub):
            self._kinds.type_of(version.with_kind(self.resource.kind))
        self.is_loaded = True

    def default_cost(self, _data: bytes, /) -> int:
        """Return 0: the estimated cost of a value covers its defaults."""
        return 0

    @functools.cached_property
    def hub(self) -> GroupVersion:
        """The version in which the objects are handled: that of the request if they are never
        stored."""
        if not self.resource.stored:
            return self.group_version
        return self._kinds.hub_version(self.resource.group, self.resource.kind)

    @property
    def stored_version(self) -> GroupVersion:
        """The version in which the objects are stored."""
        return GroupVersion(self.resource.group, self.resource.storage_version)

    @property
    def discovery_verbs(self) -> Sequence[str]:
        """The verbs in the order of discovery."""
        return sorted(self.resource.verbs)

    @property
    def discovery_subresources(self) -> Sequence[Subresource]:
        """The subresources by name."""
        return sorted(self.resource.subresources, key=lambda subresource: subresource.name)

    @property
    def field_extractor(self) -> Extractor:
        """The extractor of selectable fields, for objects in the hub version."""
        return self._kinds.field_extractor(self.resource)

    def strategy(self, subresource: str = "") -> Strategy:
        """Return the strategy of the objects or of one of their subresources."""
        strategy = self._strategies.get(subresource)
        if strategy is None:
            strategy = self._kinds.strategy(self.resource, subresource)
            self._strategies[subresource] = strategy
        return strategy


class BuiltinKinds:
    """The declared groups of one server; the arguments are as in Scheme."""

    def __init__(
        self,
        groups: Sequence[Group],
        is_enabled: Callable[[GroupVersion, str], bool] | None,
        release: int | None = None,
        compatible_release: int | None = None,
        strategies: Mapping[str, Mapping[str, Strategy]] | None = None,
    ) -> None:
        self._strategies = strategies or {}
        self._by_name = {group.name: group for group in groups}
        self._by_declared_name = {group.name: group for group in (*DECLARED_GROUPS, *groups)}
        self._is_enabled = is_enabled
        self._release, self._compatible_release = release, compatible_release
        self._defaults: dict[GroupVersionKind, Defaults] = {}

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The served groups with their enabled versions, in the order of discovery."""
        if self._is_enabled is None and self._release is None:
            return tuple(self._by_name.values())
        groups = (self._enabled_part(group) for group in self._by_name.values())
        return tuple(group for group in groups if group.versions)

    def has_group(self, name: str) -> bool:
        """Report whether a group is served."""
        return name in self._group_names

    @functools.cached_property
    def _group_names(self) -> frozenset[str]:
        return frozenset(group.name for group in self.groups)

    def _enabled_part(self, group: Group) -> Group:
        enabled = {
            version for resource in self.resources(group.name) for version in resource.versions
        }
        unserved = tuple(version for version in group.declared_versions if version not in enabled)
        return replace(group, versions=tuple(sort_versions(enabled)), unserved=unserved)

    @property
    def declared_groups(self) -> tuple[Group, ...]:
        """All groups that have types, including those without a served version."""
        return tuple(self._by_declared_name.values())

    def _group(self, name: str) -> Group:
        try:
            return self._by_name[name]
        except KeyError:
            raise NotRegistered(f"group {name!r} is not served") from None

    @_cached_method(256)
    def resources(self, group: str) -> tuple[Resource, ...]:
        """Return the group's resources in their enabled versions, in the order of discovery.

        Empty for a group that is unknown or disabled.
        """
        if group not in self._by_name:
            return ()
        resources = self._declared_resources(group)
        if self._release is not None:
            resources = tuple(resource_at(resource, self._release) for resource in resources)
        if self._is_enabled is not None:
            resources = tuple(map(self._enabled_versions, resources))
        return tuple(resource for resource in resources if resource.versions)

    def _enabled_versions(self, resource: Resource) -> Resource:
        assert self._is_enabled is not None
        versions = tuple(
            version
            for version in resource.versions
            if self._is_enabled(GroupVersion(resource.group, version), resource.name)
        )
        return replace(resource, versions=versions)

    def kind_info(self, version: GroupVersion, name: str) -> BuiltinKind | None:
        """Return the KindInfo of a resource in a version; None if it is not served."""
        return self._plurals(version.group).get((version.version, name))

    @_cached_method(256)
    def declared_kind_info(self, version: GroupVersion, name: str) -> BuiltinKind:
        """Return the KindInfo of a resource in a version, served or not. Raises NotRegistered."""
        return BuiltinKind(self.declared_resource(version, name), version, self)

    @_cached_method(256)
    def _plurals(self, group: str) -> dict[tuple[str, str], BuiltinKind]:
        return {
            (version, resource.name): BuiltinKind(resource, GroupVersion(group, version), self)
            for resource in self.resources(group)
            for version in resource.versions
        }

    def stored_resources(self) -> Iterator[Resource]:
        """Yield all resources that have a store of their own, including disabled ones."""
        for group in self._by_name.values():
            for resource in self._declared_resources(group.name):
                if resource.stored and resource.stored_in_group is None:
                    yield resource

    @functools.cached_property
    def by_prefix(self) -> dict[str, Resource]:
        """The resources by the prefix of their keys, without the root of all keys."""
        return {resource.prefix: resource for resource in self.stored_resources()}

    def resource_of(self, kind: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind of object; None if it is not served."""
        for resource in self.resources(kind.group):
            if resource.kind == kind.kind and kind.version in resource.versions and resource.stored:
                return resource
        return None

    def storage_resource(self, resource: Resource) -> Resource:
        """Return the resource whose store has the objects: the same, except for kinds in two
        groups."""
        if resource.stored_in_group is None:
            return resource
        return self.declared_resource(GroupVersion(resource.stored_in_group, "v1"), resource.name)

    def declared_resource(self, version: GroupVersion, name: str) -> Resource:
        """Return the resource of that plural name, enabled or not. Raises NotRegistered."""
        for resource in self._declared_resources(version.group):
            if resource.name == name and version.version in resource.versions:
                return resource
        raise NotRegistered(f"{name} is not a resource of {version}")

    @_cached_method(256)
    def _declared_resources(self, group: str) -> tuple[Resource, ...]:
        resources: tuple[Resource, ...] = group_module(self._group(group), "resources").RESOURCES
        return stored_compatibly(resources, self._release, self._compatible_release)

    @_cached_method(4096)  # clients can send any group
    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        """Return the type of a kind, including list kinds, the meta/v1 kinds of every group, and
        hub types for the version `__internal`. Raises NotRegistered."""
        type_ = self._declared(kind)
        if type_ is None and kind.kind.endswith("List"):
            item_type: Any = self._declared(kind._replace(kind=kind.kind.removesuffix("List")))
            type_ = (
                group_module(META, "lists").list_type(item_type)
                if item_type and item_type.listed
                else None
            )
        if type_ is None:
            type_ = getattr(group_module(META, "v1"), kind.kind, None)
        if not (isinstance(type_, type) and issubclass(type_, Kind)):
            raise NotRegistered.of_kind(kind)
        return type_

    @_cached_method()
    def hub_version(self, group: str, kind: str) -> GroupVersion:
        """Return the version in which objects of a kind, or lists of them, are handled.

        It is `__internal` if the group declares a hub type, else the preferred version that has the
        kind. Raises NotRegistered.
        """
        declared = self._group(group)
        names = (kind, kind.removesuffix("List"))
        for resource in self._declared_resources(group):
            if resource.stored_in_group is not None and resource.kind in names:
                return self.hub_version(resource.stored_in_group, kind)
        for version in (HUB, *declared.versions):
            candidate = GroupVersion(group, version)
            if any(self._declared(candidate.with_kind(name)) is not None for name in names):
                return candidate
        return GroupVersion(group, declared.versions[0])

    def kinds(self, version: GroupVersion) -> tuple[type[Kind], ...]:
        """Return the kinds that a group declares in a version, in declared order, without list
        kinds."""
        declared = (self._declared(version.with_kind(name)) for name in self._names(version))
        return tuple(kind for kind in declared if kind is not None)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version. Raises NotRegistered and ConversionFailed."""
        kind = kind_of(obj)
        source, target = self.type_of(kind), self.type_of(version.with_kind(kind.kind))
        if source is not target:
            obj = self._converter(kind, version)(obj)
        return {**obj, "apiVersion": str(version)}

    @_cached_method()
    def _converter(self, kind: GroupVersionKind, version: GroupVersion) -> Convert:
        # Through the hub, in two steps if neither version is the hub.
        hub = self.hub_version(kind.group, kind.kind)
        target_kind = version.with_kind(kind.kind)
        handled = self._is_convertible(kind) and self._is_convertible(target_kind)
        if not handled or self.hub_version(version.group, kind.kind) != hub:
            raise ConversionFailed(f"{kind} does not convert to {version}")
        source, hub_type, target = (
            self.type_of(group_version.with_kind(kind.kind))
            for group_version in (kind.group_version, hub, version)
        )
        first = self.conversion(kind.group).converter(source, hub_type)
        second = self.conversion(version.group).converter(hub_type, target)
        if source is hub_type:
            return second
        if hub_type is target:
            return first
        return lambda obj: second(first(obj))

    def _is_convertible(self, kind: GroupVersionKind) -> bool:
        group = self._by_name.get(kind.group)
        if group is None:
            return False
        item = kind._replace(kind=kind.kind.removesuffix("List"))
        return kind.version in (HUB, *group.versions) or item in self._served_again(kind.group)

    @_cached_method(256)
    def _served_again(self, group: str) -> frozenset[GroupVersionKind]:
        """Return the kinds in versions that the emulated release serves and the newest does not."""
        if self._release is None:
            return frozenset()
        return frozenset(
            GroupVersionKind(group, version, resource.kind)
            for resource in self._declared_resources(group)
            for version in versions_served_again(resource, self._release)
        )

    @_cached_method()
    def conversion(self, group: str) -> Conversion:
        """Return the converters between a group's versions and its hub.

        Raises TypeError for a difference between versions that no function handles.
        """
        conversion = Conversion(self._optional_table(group, "conversion", "CONVERSIONS"))
        versions = self._group(group).group_versions
        kinds = [kind for version in versions for kind in self.kinds(version)]
        kinds += [self.type_of(kind) for kind in sorted(self._served_again(group))]
        for kind in kinds:
            hub_version = self.hub_version(group, kind.__name__)
            hub = self.type_of(hub_version.with_kind(kind.__name__))
            conversion.converter(kind, hub)
            conversion.converter(hub, kind)
        return conversion

    def strategy(self, resource: Resource, subresource: str = "") -> Strategy:
        """Return the strategy of a resource or subresource: that of the group's table, or the
        default."""
        return self._strategy(resource.group, resource.name, resource.kind, subresource)

    @_cached_method()
    def _strategy(self, group: str, name: str, kind: str, subresource: str) -> Strategy:
        module_by_resource = self._optional_table(group, "strategies", "STRATEGY_MODULES")
        module = module_by_resource.get(name, "strategies")
        table = self._strategies.get(group) or self._optional_table(group, module, "STRATEGIES")
        key = f"{name}/{subresource}" if subresource else name
        strategy: Strategy | None = table.get(key)
        if strategy is not None:
            return strategy
        if subresource:
            main = self._strategy(group, name, kind, "")
            return StatusStrategy(main) if subresource == "status" else main
        hub = self.hub_version(group, kind)
        return default_strategy(self.type_of(hub.with_kind(kind)))

    @_cached_method()
    def field_extractor(self, resource: Resource) -> Extractor:
        """Return the extractor of the resource's selectable fields, for objects in the hub
        version."""
        resource = self.storage_resource(resource)
        return extractor(
            resource, self._optional_table(resource.group, "selectable_fields", "FIELDS")
        )

    def default(self, obj: Tree, kind: GroupVersionKind) -> None:
        """Set the defaults of an object, in place. Raises NotRegistered."""
        apply = self._defaults.get(kind)
        if apply is None:
            apply = self._defaults[kind] = compile_defaults(
                self.type_of(kind), self._default_functions(kind.group)
            )
        apply(obj)

    @_cached_method()
    def columns(self, group: str, kind: str) -> Columns:
        """Return the table columns of a kind, for objects in the hub version."""
        with contextlib.suppress(NotRegistered):
            group = self.hub_version(group, kind).group
        columns = self._optional_table(group, "columns", "COLUMNS").get(kind)
        return columns if columns is not None else DEFAULT_COLUMNS

    def _default_functions(self, group: str) -> DefaultTable:
        # Types of other groups contain core types, with the defaults of core.
        return {
            **self._optional_table("", "defaults", "DEFAULTS"),
            **self._optional_table(group, "defaults", "DEFAULTS"),
        }

    def _optional_table(self, group: str, module: str, name: str) -> dict[Any, Any]:
        declared = self._by_declared_name.get(group)
        if declared is None or not _has_module(declared, module):
            return {}
        table: dict[Any, Any] = getattr(group_module(declared, module), name, {})
        return table

    def table(self, group: str, module: str, name: str) -> Any:
        """Return a literal table of a group package: `table("apps", "columns", "COLUMNS")`."""
        return getattr(group_module(self._by_declared_name[group], module), name)

    def _names(self, version: GroupVersion) -> list[str]:
        module = group_module(self._by_declared_name[version.group], version.version)
        return [name for name, value in vars(module).items() if isinstance(value, type)]

    def _declared(self, kind: GroupVersionKind) -> type[Kind] | None:
        group = self._by_declared_name.get(kind.group)
        if group is None:
            return None
        if kind.version == HUB:
            if not _has_module(group, "internal"):
                return None
            module = group_module(group, "internal")
        elif kind.version in group.declared_versions:
            module = group_module(group, kind.version)
        else:
            return None
        type_ = vars(module).get(kind.kind)
        if not (isinstance(type_, type) and issubclass(type_, Kind)):
            return None
        # Not a kind that the module imports from another group or version.
        is_own = f"{type_.__module__}.".startswith(f"{module.__name__}.")
        return type_ if is_own else None


def _has_module(group: Group, name: str) -> bool:
    if group.find_module is not None:
        return group.find_module(name) is not None
    return _package_has_module(group.package, name)


@functools.cache
def _package_has_module(package: str, name: str) -> bool:
    return find_spec(f"kapiserver.api.{package}.{name}") is not None


def group_module(group: Group, name: str) -> ModuleType:
    """Return the module `name` (a version, `internal`, `defaults`, ...) of a group's package.

    Raises ModuleNotFoundError.
    """
    if group.find_module is not None:
        module = group.find_module(name)
        if module is None:
            raise ModuleNotFoundError(f"group {group.name} has no module {name}")
        return module
    return importlib.import_module(f"kapiserver.api.{group.package}.{name}")
