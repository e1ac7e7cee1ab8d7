"""The lookup from names to types, resources and behaviour.

Built from `groups.py`; a group's modules load when they are first asked for, so making a Scheme
costs nothing and does not grow with the number of kinds. All of it is immutable but for `custom`:
the custom kinds of the moment, exchanged as a whole and asked first. Knows no bytes and no store.
Mirrors runtime.Scheme of k8s.io/apimachinery, less the codecs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar

from kapiserver.api.accessors import kind_of
from kapiserver.api.builtin_kinds import BuiltinKind
from kapiserver.api.columns import DEFAULT_COLUMNS, Columns
from kapiserver.api.conversion import Conversion, Convert
from kapiserver.api.custom_kinds import NONE as NO_CUSTOM_KINDS
from kapiserver.api.custom_kinds import CustomKinds, CustomVersion, version_of_resource
from kapiserver.api.defaulting import Defaults, DefaultTable, compile_defaults
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import HUB, Group, GroupVersion, GroupVersionKind, Resource
from kapiserver.api.groups import DECLARED_GROUPS, GROUPS, META
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.selectable_fields import Extractor, extractor
from kapiserver.api.strategy import StatusStrategy, Strategy, default_strategy
from kapiserver.api.types import Kind, Tree

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def _remembered(
    size: int | None = None,
) -> Callable[
    [Callable[Concatenate[Any, _Asked], _Answer]],
    functools.cached_property[Callable[_Asked, _Answer]],
]:
    """A method whose last `size` answers are kept with the object: the class would keep the
    object too, and so every server that ever was in a process of tests."""

    def of(
        method: Callable[Concatenate[Any, _Asked], _Answer],
    ) -> functools.cached_property[Callable[_Asked, _Answer]]:
        def kept_with(owner: Any) -> Any:
            return functools.lru_cache(size)(functools.partial(method, owner))

        return functools.cached_property(kept_with)

    return of


class Scheme:
    """All groups of one server: everything that has a type is known, what `serves` lets through
    is served.

    `serves` says of a version and a resource in it whether clients find it; None: all of them.
    Objects of what is off are read, converted and stored like others.
    """

    def __init__(
        self,
        groups: Sequence[Group] = GROUPS,
        *,
        is_enabled: Callable[[GroupVersion, str], bool] | None = None,
    ) -> None:
        self._by_name = {group.name: group for group in groups}
        self._by_declared_name = {group.name: group for group in (*DECLARED_GROUPS, *groups)}
        self._is_enabled = is_enabled
        self._defaults: dict[GroupVersionKind, Defaults] = {}
        self.custom: CustomKinds = NO_CUSTOM_KINDS
        """The custom kinds that are served now."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """What is served, in the order discovery shows it: groups with the versions that are on,
        those of custom kinds last."""
        custom = self.custom.groups
        return self._groups if not custom else _joined(self._groups, custom)

    def has_group(self, name: str) -> bool:
        """Whether a group is served."""
        return name in self._names_of_groups or self.custom.has_group(name)

    @functools.cached_property
    def _names_of_groups(self) -> frozenset[str]:
        return frozenset(group.name for group in self._groups)

    @functools.cached_property
    def _groups(self) -> tuple[Group, ...]:
        if self._is_enabled is None:
            return tuple(self._by_name.values())
        found = (self._served_part(group) for group in self._by_name.values())
        return tuple(group for group in found if group.versions)

    def _served_part(self, group: Group) -> Group:
        on = {version for one in self._resources(group.name) for version in one.versions}
        return replace(
            group,
            versions=tuple(version for version in group.versions if version in on),
            unserved=(*(v for v in group.versions if v not in on), *group.unserved),
        )

    @property
    def declared_groups(self) -> tuple[Group, ...]:
        """All groups that have types, those without a served version included."""
        return tuple(self._by_declared_name.values())

    def _group(self, name: str) -> Group:
        try:
            return self._by_name[name]
        except KeyError:
            raise NotRegistered(f"group {name!r} is not served") from None

    def is_served(self, version: GroupVersion) -> bool:
        """Whether the group has that version, and it is on."""
        return any(version.version in one.versions for one in self.resources(version.group))

    def resources(self, group: str) -> tuple[Resource, ...]:
        """The group's resources in the versions that are on, in the order discovery shows them;
        none of a group that is unknown or off."""
        return (*self._resources(group), *self.custom.resources(group))

    @_remembered(256)
    def _resources(self, group: str) -> tuple[Resource, ...]:
        if group not in self._by_name:
            return ()
        found = self._declared_resources(group)
        is_enabled = self._is_enabled
        if is_enabled is None:
            return found
        on = (
            replace(
                one,
                versions=tuple(
                    v for v in one.versions if is_enabled(GroupVersion(group, v), one.name)
                ),
            )
            for one in found
        )
        return tuple(one for one in on if one.versions)

    def resource(self, version: GroupVersion, name: str) -> Resource:
        """The resource of that plural name. Raises NotRegistered."""
        return self.kind_info(version, name).resource

    def kind_info(self, version: GroupVersion, name: str) -> KindInfo:
        """Return what is known of a resource in a version. Raises NotRegistered if it is not
        served."""
        found = self._plurals(version.group).get((version.version, name))
        if found is not None:
            return found
        custom = self._custom_resource(version, name)
        if custom is not None and custom.served:
            return custom
        raise NotRegistered(f"{name} is not a resource of {version}")

    def _custom_resource(self, version: GroupVersion, name: str) -> CustomVersion | None:
        definition = self.custom.by_plural(version.group, name)
        return None if definition is None else definition.versions.get(version.version)

    @_remembered(256)
    def _plurals(self, group: str) -> dict[tuple[str, str], BuiltinKind]:
        return {
            (version, resource.name): BuiltinKind(resource, GroupVersion(group, version), self)
            for resource in self._resources(group)
            for version in resource.versions
        }

    def stored_resources(self) -> Iterator[Resource]:
        """All resources that have a store of their own, those that are off included."""
        for group in self._by_name.values():
            for one in group_module(group, "resources").RESOURCES:
                if one.stored and one.stored_in_group is None:
                    yield one
        yield from self.custom.stored_resources()

    def resource_of(self, kind: GroupVersionKind) -> Resource:
        """The resource of that kind of object. Raises NotRegistered."""
        custom = self.custom.version_of(kind)
        if custom is not None and custom.served:
            return custom.resource
        for one in self._resources(kind.group):
            if one.kind == kind.kind and kind.version in one.versions and one.stored:
                return one
        raise NotRegistered(f"no matches for kind {kind.kind!r} in version {kind.group_version}")

    def storage_resource(self, resource: Resource) -> Resource:
        """The resource whose store has the objects: itself, but for kinds in two groups."""
        if resource.stored_in_group is None:
            return resource
        return self.declared_resource(GroupVersion(resource.stored_in_group, "v1"), resource.name)

    def declared_resource(self, version: GroupVersion, name: str) -> Resource:
        """The resource of that plural name, on or off: for those who work for the server itself.

        Raises NotRegistered.
        """
        custom = self._custom_resource(version, name)
        if custom is not None:
            return custom.resource
        for one in self._declared_resources(version.group):
            if one.name == name and version.version in one.versions:
                return one
        raise NotRegistered(f"{name} is not a resource of {version}")

    def _declared_resources(self, group: str) -> tuple[Resource, ...]:
        found: tuple[Resource, ...] = group_module(self._group(group), "resources").RESOURCES
        return found

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        """The type of a kind, lists and meta/v1 kinds of every group included, and hub types for
        the version `__internal`. Raises NotRegistered."""
        return self.custom.type_of(kind) or self._type_of(kind)

    @_remembered(4096)  # anybody may ask for any group
    def _type_of(self, kind: GroupVersionKind) -> type[Kind]:
        found = self._declared(kind)
        if found is None and kind.kind.endswith("List"):
            item: Any = self._declared(kind._replace(kind=kind.kind.removesuffix("List")))
            found = group_module(META, "lists").list_type(item) if item and item.listed else None
        if found is None:
            found = getattr(group_module(META, "v1"), kind.kind, None)
        if not (isinstance(found, type) and issubclass(found, Kind)):
            raise NotRegistered.of_kind(kind)
        return found

    def hub_of(self, resource: Resource) -> GroupVersion:
        """The version in which the objects of a resource are handled."""
        if resource.definition:
            return GroupVersion(resource.group, resource.versions[0])
        return self._hub_version(resource.group, resource.kind)

    def hub_version(self, group: str, kind: str) -> GroupVersion:
        """The version in which objects of a kind, or lists of them, are handled: `__internal`
        where the group declares a hub type, else the preferred version that has the kind. Custom
        objects are handled in the version of the request; here, it is the stored one.

        Raises NotRegistered.
        """
        custom = self.custom.by_kind(group, kind)
        return (
            self._hub_version(group, kind)
            if custom is None
            else custom.stored_version.group_version
        )

    @_remembered()
    def _hub_version(self, group: str, kind: str) -> GroupVersion:
        declared = self._group(group)
        names = (kind, kind.removesuffix("List"))
        for resource in self._declared_resources(group):
            if resource.stored_in_group is not None and resource.kind in names:
                return self.hub_version(resource.stored_in_group, kind)
        for version in (HUB, *declared.versions):
            found = GroupVersion(group, version)
            if any(self._declared(found.with_kind(name)) is not None for name in names):
                return found
        return GroupVersion(group, declared.versions[0])

    def is_custom(self, obj: Tree) -> bool:
        """Whether it is a custom object or a list of such."""
        if not self.custom:
            return False
        group = (obj.get("apiVersion") or "").rpartition("/")[0]
        return self.custom.by_kind(group, obj.get("kind") or "") is not None

    def kinds(self, version: GroupVersion) -> tuple[type[Kind], ...]:
        """The kinds that a group declares in a version, in the order of their module; list kinds
        are not among them."""
        found = (self._declared(version.with_kind(name)) for name in self._names(version))
        return tuple(kind for kind in found if kind is not None)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """The object in another version of its group, the hub included; itself where it is in
        that version already. The result may share parts with the object: copy before changing.

        Raises NotRegistered and ConversionFailed.
        """
        kind = kind_of(obj)
        if kind.group_version == version:
            return obj
        if self.custom.version_of(kind) is not None:
            return self._convert_custom(obj, version.with_kind(kind.kind))
        source, target = self.type_of(kind), self.type_of(version.with_kind(kind.kind))
        if source is not target:
            obj = self._way(kind, version)(obj)
        return {**obj, "apiVersion": str(version)}

    def _convert_custom(self, obj: Tree, kind: GroupVersionKind) -> Tree:
        from kapiserver.api.apiextensions.custom_conversion import renamed

        custom = self.custom.version_of(kind)
        if custom is None:
            raise NotRegistered.of_kind(kind)
        return renamed(obj, custom)

    @_remembered()
    def _way(self, kind: GroupVersionKind, version: GroupVersion) -> Convert:
        # By way of the hub, in two steps where neither is it.
        hub = self.hub_version(kind.group, kind.kind)
        handled = self._is_handled(kind.group_version) and self._is_handled(version)
        if not handled or self.hub_version(version.group, kind.kind) != hub:
            raise ConversionFailed(f"{kind} does not convert to {version}")
        source, middle, target = (
            self.type_of(one.with_kind(kind.kind)) for one in (kind.group_version, hub, version)
        )
        first = self.conversion(kind.group).converter(source, middle)
        second = self.conversion(version.group).converter(middle, target)
        if source is middle:
            return second
        if middle is target:
            return first
        return lambda obj: second(first(obj))

    def _is_handled(self, version: GroupVersion) -> bool:
        group = self._by_name.get(version.group)
        return group is not None and version.version in (HUB, *group.versions)

    @_remembered()
    def conversion(self, group: str) -> Conversion:
        """All ways between a group's versions and its hub.

        Raises TypeError for a difference between versions that no function answers for.
        """
        conversion = Conversion(self._optional_table(group, "conversion", "CONVERSIONS"))
        for version in self._group(group).group_versions:
            for kind in self.kinds(version):
                hub_version = self.hub_version(group, kind.__name__)
                hub = self.type_of(hub_version.with_kind(kind.__name__))
                conversion.converter(kind, hub)
                conversion.converter(hub, kind)
        return conversion

    def strategy(self, resource: Resource, subresource: str = "") -> Strategy:
        """How writes of a resource, or of one of its subresources, behave: what the group's table
        says, else the ordinary way."""
        if resource.definition:
            return self._custom(resource).strategies[subresource]
        return self._strategy(resource, subresource)

    def _custom(self, resource: Resource) -> CustomVersion:
        found = version_of_resource(resource, self.custom)
        if found is None:
            raise NotRegistered(f"{resource.qualified_name} is not served any more")
        return found

    @_remembered()
    def _strategy(self, resource: Resource, subresource: str) -> Strategy:
        elsewhere = self._optional_table(resource.group, "strategies", "ELSEWHERE")
        module = elsewhere.get(resource.name, "strategies")
        table = self._optional_table(resource.group, module, "STRATEGIES")
        key = f"{resource.name}/{subresource}" if subresource else resource.name
        found: Strategy | None = table.get(key)
        if found is not None:
            return found
        if subresource:
            kind = self.strategy(resource)
            return StatusStrategy(kind) if subresource == "status" else kind
        hub = self.hub_version(resource.group, resource.kind)
        return default_strategy(self.type_of(hub.with_kind(resource.kind)))

    def field_extractor(self, resource: Resource) -> Extractor:
        """What reads the selectable fields of the resource's objects, in the hub version."""
        return self._custom(resource).fields if resource.definition else self._fields(resource)

    @_remembered()
    def _fields(self, resource: Resource) -> Extractor:
        resource = self.storage_resource(resource)
        return extractor(resource, self._optional_table(resource.group, "fields", "FIELDS"))

    def default(self, obj: Tree) -> None:
        """Fill in, in place, what a client left out of an object in a served version: the
        declared defaults and those that the group's functions decide. Kinds without a type are
        left alone."""
        kind = kind_of(obj)
        custom = self.custom.version_of(kind)
        if custom is not None:
            schema_defaults(obj, custom)
            return
        apply = self._defaults.get(kind)
        if apply is None:
            apply = self._defaults[kind] = compile_defaults(
                self.type_of(kind), self._default_functions(kind.group)
            )
        apply(obj)

    def columns(self, group: str, kind: str, version: str = "") -> Columns:
        """The columns of a kind's tables; their cells read the hub version. A custom kind has
        other ones in each version."""
        custom = self.custom.version_of(GroupVersionKind(group, version, kind))
        return self._columns(group, kind) if custom is None else custom.columns

    @_remembered()
    def _columns(self, group: str, kind: str) -> Columns:
        with contextlib.suppress(NotRegistered):
            group = self._hub_version(group, kind).group
        found = self._optional_table(group, "columns", "COLUMNS").get(kind)
        return found if found is not None else DEFAULT_COLUMNS

    def _default_functions(self, group: str) -> DefaultTable:
        # Types of core stand in those of many groups, with their own defaults.
        return {
            **self._optional_table("", "defaults", "DEFAULTS"),
            **self._optional_table(group, "defaults", "DEFAULTS"),
        }

    def _optional_table(self, group: str, module: str, name: str) -> dict[Any, Any]:
        declared = self._by_declared_name.get(group)
        if declared is None or not _has_module(declared, module):
            return {}
        found: dict[Any, Any] = getattr(group_module(declared, module), name, {})
        return found

    def table(self, group: str, module: str, name: str) -> Any:
        """A literal table of a group package: `table("apps", "columns", "COLUMNS")`."""
        return getattr(group_module(self._by_declared_name[group], module), name)

    def _names(self, version: GroupVersion) -> list[str]:
        module = group_module(self._by_declared_name[version.group], version.version)
        return [name for name, found in vars(module).items() if isinstance(found, type)]

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
        found = vars(module).get(kind.kind)
        if not (isinstance(found, type) and issubclass(found, Kind)):
            return None
        # Not a kind of another group or version that the module imports.
        own = f"{found.__module__}.".startswith(f"{module.__name__}.")
        return found if own else None


def schema_defaults(obj: Tree, custom: CustomVersion) -> None:
    """Fill in, in place, what the schema of a custom kind has defaults for."""
    from kapiserver.api.apiextensions import schema_defaults as defaults  # most servers need none

    defaults.apply(obj, custom.structural)


def _joined(groups: tuple[Group, ...], custom: tuple[Group, ...]) -> tuple[Group, ...]:
    """All groups; custom kinds may stand in a version of a group that is declared too."""
    added = {group.name: group.versions for group in custom}
    both = [
        replace(
            group,
            versions=(
                *group.versions,
                *(one for one in added.pop(group.name) if one not in group.versions),
            ),
        )
        if group.name in added
        else group
        for group in groups
    ]
    return (*both, *(group for group in custom if group.name in added))


@functools.cache
def _has_module(group: Group, name: str) -> bool:
    return find_spec(f"kapiserver.api.{group.package}.{name}") is not None


def group_module(group: Group, name: str) -> ModuleType:
    """Return the module `name` (a version, `internal`, `defaults`, ...) of a group's package.

    Raises ModuleNotFoundError.
    """
    return importlib.import_module(f"kapiserver.api.{group.package}.{name}")
