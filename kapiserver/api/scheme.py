"""The Scheme: lookup of types, resources and behaviour by name, for built-in and custom kinds.

A Scheme is the union of `BuiltinKinds`, which never change, and `custom`, the current snapshot of
custom kinds, which is replaced as a whole and looked up first. Only the Scheme distinguishes the
two; other code uses KindInfo, ObjectInfo or types. Knows no bytes and no store. Mirrors
runtime.Scheme of k8s.io/apimachinery, without the codecs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kapiserver.api.accessors import kind_of
from kapiserver.api.builtin_kinds import BuiltinKind, BuiltinKinds, BuiltinObjects
from kapiserver.api.columns import Columns
from kapiserver.api.conversion import Conversion
from kapiserver.api.custom_kinds import NONE as NO_CUSTOM_KINDS
from kapiserver.api.custom_kinds import CustomKinds, CustomVersion, version_of_resource
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import Group, GroupVersion, GroupVersionKind, Resource
from kapiserver.api.groups import GROUPS
from kapiserver.api.kind_info import KindInfo, ObjectInfo
from kapiserver.api.selectable_fields import Extractor
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Kind, Tree


class Scheme:
    """All groups of one server: every type is known, enabled versions are served.

    `is_enabled` reports whether a resource is served in a version; by default, all are. Objects of
    disabled versions are read, converted and stored like others. `release` is the minor of the
    release 1.x to emulate: resources are served in the versions that it has. By default it is the
    newest. `compatible_release` is the minor of the oldest release that must read what is stored;
    by default it is the one before the newest. `strategies` replace those of the groups' tables: by
    group, then by resource and subresource as in the tables.
    """

    def __init__(
        self,
        groups: Sequence[Group] = GROUPS,
        *,
        is_enabled: Callable[[GroupVersion, str], bool] | None = None,
        release: int | None = None,
        compatible_release: int | None = None,
        strategies: Mapping[str, Mapping[str, Strategy]] | None = None,
    ) -> None:
        self._builtin = BuiltinKinds(groups, is_enabled, release, compatible_release, strategies)
        self.custom: CustomKinds = NO_CUSTOM_KINDS
        """The current custom kinds."""

    def without_custom_kinds(self) -> Scheme:
        """Return a scheme that shares the built-in kinds, and has no custom ones."""
        scheme = copy.copy(self)
        scheme.custom = NO_CUSTOM_KINDS
        return scheme

    # Groups.

    @property
    def groups(self) -> tuple[Group, ...]:
        """The served groups with their enabled versions, in the order of discovery, custom groups
        last."""
        builtin, custom = self._builtin.groups, self.custom.groups
        return builtin if not custom else _merge_groups(builtin, custom)

    def has_group(self, name: str) -> bool:
        """Report whether a group is served."""
        return self._builtin.has_group(name) or self.custom.has_group(name)

    @property
    def declared_groups(self) -> tuple[Group, ...]:
        """All groups that have types, including those without a served version."""
        return self._builtin.declared_groups

    def is_served(self, version: GroupVersion) -> bool:
        """Report whether the group has that version and it is enabled."""
        return any(
            version.version in resource.versions for resource in self.resources(version.group)
        )

    # Resources.

    def resources(self, group: str) -> tuple[Resource, ...]:
        """Return the group's resources in their enabled versions, in the order of discovery.

        Empty for a group that is unknown or disabled.
        """
        return (*self._builtin.resources(group), *self.custom.resources(group))

    def resource(self, version: GroupVersion, name: str) -> Resource:
        """Return the resource of that plural name. Raises NotRegistered."""
        return self.kind_info(version, name).resource

    def kind_info(self, version: GroupVersion, name: str) -> KindInfo:
        """Return the KindInfo of a resource in a version. Raises NotRegistered if it is not
        served."""
        builtin = self._builtin.kind_info(version, name)
        if builtin is not None:
            return builtin
        custom = self._custom_resource(version, name)
        if custom is not None and custom.served:
            return custom
        raise NotRegistered(f"{name} is not a resource of {version}")

    def kind_info_of(self, resource: Resource) -> KindInfo:
        """Return the KindInfo of a resource, served or not, in its preferred version.

        Raises NotRegistered if its CustomResourceDefinition was deleted.
        """
        if not resource.definition:
            version = GroupVersion(resource.group, resource.versions[0])
            return BuiltinKind(resource, version, self._builtin)
        custom = version_of_resource(resource, self.custom)
        if custom is None:
            raise NotRegistered(f"{resource.qualified_name} is not served any more")
        return custom

    def _custom_resource(self, version: GroupVersion, name: str) -> CustomVersion | None:
        definition = self.custom.by_plural(version.group, name)
        return None if definition is None else definition.versions.get(version.version)

    def stored_resources(self) -> Iterator[Resource]:
        """Yield all resources that have a store of their own, including disabled ones."""
        yield from self._builtin.stored_resources()
        yield from self.custom.stored_resources()

    def resource_at(self, path: str) -> Resource | None:
        """Return the resource whose objects are stored under a key, given without the root of all
        keys, in the version in which they are stored."""
        first, _, rest = path.partition("/")
        by_prefix = self._builtin.by_prefix
        builtin = by_prefix.get(first)  # a prefix with one segment begins no other prefix
        if builtin is not None:
            return builtin
        second = rest.partition("/")[0]
        definition = self.custom.by_plural(first, second)
        if definition is not None:
            return definition.stored_version.resource
        return by_prefix.get(f"{first}/{second}")

    def resource_of(self, kind: GroupVersionKind) -> Resource:
        """Return the resource of a kind of object. Raises NotRegistered."""
        custom = self.custom.version_of(kind)
        if custom is not None and custom.served:
            return custom.resource
        builtin = self._builtin.resource_of(kind)
        if builtin is not None:
            return builtin
        raise NotRegistered(f'no matches for kind "{kind.kind}" in version "{kind.group_version}"')

    def storage_resource(self, resource: Resource) -> Resource:
        """Return the resource whose store has the objects: the same, except for kinds in two
        groups."""
        return self._builtin.storage_resource(resource)

    def declared_resource(self, version: GroupVersion, name: str) -> Resource:
        """Return the resource of that plural name, enabled or not, for the server's own use.

        Raises NotRegistered.
        """
        custom = self._custom_resource(version, name)
        if custom is not None:
            return custom.resource
        return self._builtin.declared_resource(version, name)

    def declared_kind_info(self, version: GroupVersion, name: str) -> KindInfo:
        """Return the KindInfo of a built-in resource in a version, served or not, for the server's
        own use. Raises NotRegistered."""
        return self._builtin.declared_kind_info(version, name)

    def strategy(self, resource: Resource, subresource: str = "") -> Strategy:
        """Return the strategy of a resource or subresource: that of the group's table, or the
        default."""
        return self.kind_info_of(resource).strategy(subresource)

    def field_extractor(self, resource: Resource) -> Extractor:
        """Return the extractor of the resource's selectable fields, for objects in the hub
        version."""
        return self.kind_info_of(resource).field_extractor

    # Kinds of objects.

    def object_info(self, kind: GroupVersionKind) -> ObjectInfo:
        """Return the ObjectInfo of a kind, with or without a resource."""
        return self.custom.version_of(kind) or BuiltinObjects(kind, self._builtin)

    def is_typed(self, obj: Tree) -> bool:
        """Report whether the object is neither a custom object nor a list of them."""
        if not self.custom:
            return True
        group = (obj.get("apiVersion") or "").rpartition("/")[0]
        return self.custom.by_kind(group, obj.get("kind") or "") is None

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        """Return the type of a kind, including list kinds, the meta/v1 kinds of every group, and
        hub types for the version `__internal`. Raises NotRegistered."""
        return self.custom.type_of(kind) or self._builtin.type_of(kind)

    def type_lookup(self) -> Callable[[GroupVersionKind], type[Kind]]:
        """Return `type_of` for the current custom kinds, which works when they are gone, too."""
        custom = self.custom
        return lambda kind: custom.type_of(kind) or self.type_of(kind)

    def hub_version(self, group: str, kind: str) -> GroupVersion:
        """Return the version in which objects of a kind, or lists of them, are handled.

        It is `__internal` if the group declares a hub type, else the preferred version that has the
        kind. Custom objects are handled in the version of the request; for them, this is the
        storage version.

        Raises NotRegistered.
        """
        custom = self.custom.by_kind(group, kind)
        if custom is not None:
            return custom.stored_version.group_version
        return self._builtin.hub_version(group, kind)

    def default(self, obj: Tree) -> None:
        """Set the defaults of an object in a served version, in place: declared ones and the
        group's.

        Objects of kinds without a type do not change.
        """
        self.object_info(kind_of(obj)).default(obj)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version of its group, or in the hub version.

        Returns the object itself if it is in that version. The result may share parts with the
        object: copy before changing it. Raises NotRegistered and ConversionFailed.
        """
        if obj.get("apiVersion") == str(version):
            return obj
        return self.object_info(kind_of(obj)).convert(obj, version)

    def columns(self, group: str, kind: str, version: str = "") -> Columns:
        """Return the table columns of a kind, for objects in the hub version.

        A custom kind has columns of its own in each version.
        """
        return self.object_info(GroupVersionKind(group, version, kind)).columns

    # Declarations of built-in groups.

    def kinds(self, version: GroupVersion) -> tuple[type[Kind], ...]:
        """Return the kinds that a group declares in a version, in declared order, without list
        kinds."""
        return self._builtin.kinds(version)

    def conversion(self, group: str) -> Conversion:
        """Return the converters between a group's versions and its hub.

        Raises TypeError for a difference between versions that no function handles.
        """
        return self._builtin.conversion(group)

    def table(self, group: str, module: str, name: str) -> Any:
        """Return a literal table of a group package: `table("apps", "columns", "COLUMNS")`."""
        return self._builtin.table(group, module, name)


def _merge_groups(groups: tuple[Group, ...], custom: tuple[Group, ...]) -> tuple[Group, ...]:
    """Merge declared and custom groups; custom kinds may be in a version of a declared group."""
    added = {group.name: group.versions for group in custom}
    merged = [
        replace(
            group,
            versions=(
                *group.versions,
                *(version for version in added.pop(group.name) if version not in group.versions),
            ),
        )
        if group.name in added
        else group
        for group in groups
    ]
    return (*merged, *(group for group in custom if group.name in added))


class ConfigurationScheme(Scheme):
    """The kinds that a configuration file of the server may have; the API does not serve them."""

    def __init__(self, kinds: Mapping[GroupVersionKind, type[Kind]]) -> None:
        super().__init__()
        self._configuration_kinds = kinds

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        """Return the type of a kind. Raises NotRegistered."""
        if kind not in self._configuration_kinds:
            raise NotRegistered.of_kind(kind)
        return self._configuration_kinds[kind]
