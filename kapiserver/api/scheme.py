"""The immutable lookup from names to types, resources and behaviour.

Built from `groups.py`; a group's modules load when they are first asked for, so making a Scheme
costs nothing and does not grow with the number of kinds. Knows no bytes and no store. Mirrors
runtime.Scheme of k8s.io/apimachinery, less the codecs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from kapiserver.api.columns import DEFAULT_COLUMNS, Columns
from kapiserver.api.conversion import Conversion
from kapiserver.api.defaulting import Defaults, DefaultTable, compile_defaults
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.fields import Extractor, extractor
from kapiserver.api.group import HUB, Group, GroupVersion, GroupVersionKind, Resource
from kapiserver.api.groups import DECLARED_GROUPS, GROUPS, META
from kapiserver.api.objects import kind_of
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Kind, Tree, list_type


class Scheme:
    """All groups of one server."""

    def __init__(self, groups: Sequence[Group] = GROUPS) -> None:
        self.groups = tuple(groups)
        self._by_name = {group.name: group for group in groups}
        self._by_declared_name = {group.name: group for group in (*DECLARED_GROUPS, *groups)}
        self._defaults: dict[GroupVersionKind, Defaults] = {}

    @property
    def declared_groups(self) -> tuple[Group, ...]:
        """All groups that have types, those without a served version included."""
        return tuple(self._by_declared_name.values())

    def group(self, name: str) -> Group:
        """The served group of that name. Raises NotRegistered."""
        try:
            return self._by_name[name]
        except KeyError:
            raise NotRegistered(f"group {name!r} is not served") from None

    def serves(self, version: GroupVersion) -> bool:
        """Whether the group has that version."""
        group = self._by_name.get(version.group)
        return group is not None and version.version in group.versions

    @functools.cache  # noqa: B019 - one Scheme lives as long as its server
    def resources(self, group: str) -> tuple[Resource, ...]:
        """The group's resources, in the order discovery shows them."""
        found: tuple[Resource, ...] = _module(self.group(group), "resources").RESOURCES
        return found

    def resource(self, version: GroupVersion, name: str) -> Resource:
        """The resource of that plural name. Raises NotRegistered."""
        for resource in self.resources(version.group):
            if resource.name == name and version.version in resource.versions:
                return resource
        raise NotRegistered(f"{name} is not a resource of {version}")

    @functools.cache  # noqa: B019
    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        """The type of a kind, lists and meta/v1 kinds of every group included, and hub types for
        the version `__internal`. Raises NotRegistered."""
        found = self._declared(kind)
        if found is None and kind.kind.endswith("List"):
            item: Any = self._declared(kind._replace(kind=kind.kind.removesuffix("List")))
            found = list_type(item) if item and item.listed else None
        if found is None:
            found = getattr(_module(META, "v1"), kind.kind, None)
        if not (isinstance(found, type) and issubclass(found, Kind)):
            raise NotRegistered(
                f'no kind "{kind.kind}" is registered for version "{kind.group_version}"'
            )
        return found

    def hub_version(self, group: str) -> GroupVersion:
        """The version in which the group's objects are handled: its only one, or `__internal`."""
        versions = self.group(group).versions
        return GroupVersion(group, versions[0] if len(versions) == 1 else HUB)

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
        source, target = self.type_of(kind), self.type_of(version.with_kind(kind.kind))
        if source is not target:
            handled = self._is_handled(kind.group_version) and self._is_handled(version)
            if kind.group != version.group or not handled:
                raise ConversionFailed(f"{kind} does not convert to {version}")
            conversion = self.conversion(kind.group)
            if HUB not in (kind.version, version.version):
                hub = self.type_of(kind._replace(version=HUB))
                obj, source = conversion.between(source, hub)(obj), hub
            obj = conversion.between(source, target)(obj)
        return {**obj, "apiVersion": str(version)}

    def _is_handled(self, version: GroupVersion) -> bool:
        return version.version == HUB or self.serves(version)

    @functools.cache  # noqa: B019
    def conversion(self, group: str) -> Conversion:
        """All ways between a group's versions and its hub.

        Raises TypeError for a difference between versions that no function answers for.
        """
        conversion = Conversion(self._optional_table(group, "conversion", "CONVERSIONS"))
        for version in self.group(group).group_versions:
            for kind in self.kinds(version):
                hub = self.type_of(GroupVersionKind(group, HUB, kind.__name__))
                conversion.between(kind, hub)
                conversion.between(hub, kind)
        return conversion

    def strategy(self, resource: Resource, subresource: str = "") -> Strategy:
        """How writes of a resource, or of one of its subresources, behave."""
        module = _module(self.group(resource.group), "strategies")
        key = f"{resource.name}/{subresource}" if subresource else resource.name
        found: Strategy = module.STRATEGIES[key]
        return found

    @functools.cache  # noqa: B019
    def fields(self, resource: Resource) -> Extractor:
        """What reads the selectable fields of the resource's objects, in the hub version."""
        return extractor(resource, self._optional_table(resource.group, "fields", "FIELDS"))

    def default(self, obj: Tree) -> None:
        """Fill in, in place, what a client left out of an object in a served version: the
        declared defaults and those that the group's functions decide. Kinds without a type are
        left alone."""
        kind = kind_of(obj)
        apply = self._defaults.get(kind)
        if apply is None:
            apply = self._defaults[kind] = compile_defaults(
                self.type_of(kind), self._default_functions(kind.group)
            )
        apply(obj)

    @functools.cache  # noqa: B019
    def columns(self, group: str, kind: str) -> Columns:
        """The columns of a kind's tables; their cells read the hub version."""
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
        if declared is None or find_spec(f"kapiserver.api.{declared.package}.{module}") is None:
            return {}
        found: dict[Any, Any] = self.table(group, module, name)
        return found

    def table(self, group: str, module: str, name: str) -> Any:
        """A literal table of a group package: `table("apps", "columns", "COLUMNS")`."""
        return getattr(_module(self._by_declared_name[group], module), name)

    def _names(self, version: GroupVersion) -> list[str]:
        module = _module(self._by_declared_name[version.group], version.version)
        return [name for name, found in vars(module).items() if isinstance(found, type)]

    def _declared(self, kind: GroupVersionKind) -> type[Kind] | None:
        group = self._by_declared_name.get(kind.group)
        if group is None:
            return None
        if kind.version == HUB:
            version = "internal" if len(group.versions) > 1 else group.versions[0]
        elif kind.version in group.declared_versions:
            version = kind.version
        else:
            return None
        module = _module(group, version)
        found = vars(module).get(kind.kind)
        if not (isinstance(found, type) and issubclass(found, Kind)):
            return None
        # Not a kind of another group or version that the module imports.
        own = f"{found.__module__}.".startswith(f"{module.__name__}.")
        return found if own else None


def _module(group: Group, name: str) -> Any:
    return importlib.import_module(f"kapiserver.api.{group.package}.{name}")
