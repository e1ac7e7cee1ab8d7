"""Groups and resources as data: names, versions, scope, verbs, subresources.

Routes, discovery, OpenAPI, tables and authorization attributes derive from them. This module
imports no type: discovery and startup read resources without loading any type declaration. Mirrors
APIGroup and APIResource of meta/v1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NamedTuple

from msgspec import Struct

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupVersion(NamedTuple):
    """An API group and version; the core group's name is empty."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Parse an `apiVersion`. Raises ValueError if it has more than one slash."""
        group, slash, version = api_version.rpartition("/")
        if "/" in group or (slash and not group):
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version)

    def with_kind(self, kind: str) -> GroupVersionKind:
        """Return the kind of that name in this group and version."""
        return GroupVersionKind(self.group, self.version, kind)


class GroupVersionKind(NamedTuple):
    """The group, version and kind of an object."""

    group: str
    version: str
    kind: str

    @classmethod
    def from_reference(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Return the kind that a reference names; the group and version are empty if the
        `apiVersion` is malformed, as in FromAPIVersionAndKind."""
        try:
            return GroupVersion.parse(api_version).with_kind(kind)
        except ValueError:
            return cls("", "", kind)

    @property
    def group_version(self) -> GroupVersion:
        """The group and version, without the kind."""
        return GroupVersion(self.group, self.version)

    @property
    def api_version(self) -> str:
        """The group and version as the `apiVersion` of an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """The group, version and plural name of a resource."""

    group: str
    version: str
    resource: str


CORE = GroupVersion("", "v1")
"""The core group's only version: pods, services, namespaces."""

HUB = "__internal"
"""The version name of a hub type that no version of the group has; clients never see it."""

_STABLE_VERSION = re.compile(r"v[0-9]+")


def is_stable(version: str) -> bool:
    """Report whether a version is neither alpha nor beta."""
    return _STABLE_VERSION.fullmatch(version) is not None


_KUBE_VERSION = re.compile(r"v([1-9][0-9]{0,17})(?:(alpha|beta)([1-9][0-9]{0,17}))?")


def sort_versions(versions: Iterable[str]) -> list[str]:
    """Sort version names by preference: v10, v2, v1, v2beta1, v1beta2, v1alpha1, then other names
    alphabetically."""
    return sorted(versions, key=_preference)


def _preference(version: str) -> tuple[int, int, int, str]:
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ((None, "beta", "alpha").index(stage), -int(major), -int(minor or 0), "")


class Subresource(Struct, frozen=True, kw_only=True):
    """A path below an object: `status`, `scale`, `finalize`."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = None
    """The kind of its body; None if that is the resource's kind."""


class Deprecation(Struct, frozen=True, kw_only=True):
    """A deprecated version of a resource; releases are the minors of 1.x.

    removed_in   0 if not announced
    replacement  the kind to use instead, if there is one
    warning      the whole warning, if it is not made from the others
    """

    version: str
    since: int = 0
    removed_in: int = 0
    replacement: GroupVersionKind | None = None
    warning: str | None = None


class Resource(Struct, frozen=True, kw_only=True, dict=True):
    """One resource of a group, in all versions that serve it."""

    group: str
    name: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...]
    """The served versions, the preferred one first."""
    storage_version: str
    storage_prefix: str = ""
    """The key prefix below the root of all keys; empty for the resource's name."""
    stored_in_group: str | None = None
    """The group whose resource of the same name stores the objects; None for this group."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    """Fields for field selectors, besides metadata.name and metadata.namespace."""
    field_aliases: tuple[tuple[str, str], ...] = ()
    """Aliases of selectable fields: (alias, field of the resource that stores the objects)."""
    unsupported_field_message: str = "field label not supported: {}"
    """The error for other fields, if there are selectable ones."""
    returns_deleted_object: bool = False
    """Whether a delete returns the deleted object instead of a Status."""
    deprecations: tuple[Deprecation, ...] = ()
    current_marker: bytes = b""
    """Bytes that are in the Protobuf of every object written by current servers. The strategy of
    the kind fills in the missing fields of an object without them when it is read."""
    stored: bool = True
    """False for kinds that exist only in requests and responses: reviews, bindings."""
    list_kind: str = ""
    """The kind of its lists; empty for the kind followed by "List"."""
    definition: str = ""
    """The name of the CustomResourceDefinition it comes from. Each version of a definition has a
    resource of its own, whose objects are handled in that version, whatever the storage version."""
    spec_generation: str = ""
    """The uid and generation of the definition: changes when its spec does."""

    @functools.cached_property
    def store_key(self) -> tuple[str, str, str]:
        """Identifies the store: each version of a definition has one of its own."""
        return (self.group, self.name, self.versions[0] if self.definition else "")

    @property
    def has_own_field_labels(self) -> bool:
        """Whether an unknown field selector is refused with `unsupported_field_message`."""
        return bool(self.selectable_fields or self.field_aliases or self.definition)

    @property
    def list_kind_name(self) -> str:
        """The kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def prefix(self) -> str:
        """The key prefix under which the objects are stored."""
        return self.storage_prefix or self.name

    @property
    def singular_name(self) -> str:
        """The singular name in discovery."""
        return self.singular or self.kind.lower()

    @functools.cached_property
    def qualified_name(self) -> str:
        """`pods` or `deployments.apps`, as messages name a resource."""
        return f"{self.name}.{self.group}" if self.group else self.name


def deprecation_of(resource: Resource, version: GroupVersion) -> str:
    """Return the warning for clients of a deprecated version; empty if it is not deprecated."""
    deprecation = find_deprecation(resource, version)
    if deprecation is None:
        return ""
    if deprecation.warning is not None:
        return deprecation.warning
    text = f"{version} {resource.kind} is deprecated in v1.{deprecation.since}+"
    if deprecation.removed_in:
        text += f", unavailable in v1.{deprecation.removed_in}+"
    kind = deprecation.replacement
    return f"{text}; use {kind.group_version} {kind.kind}" if kind else text


def find_deprecation(resource: Resource, version: GroupVersion) -> Deprecation | None:
    """Return the declaration of a deprecated version; None if it is not deprecated."""
    versions = (
        deprecation
        for deprecation in resource.deprecations
        if deprecation.version == version.version
    )
    return next(versions, None)


class Group(Struct, frozen=True, kw_only=True):
    """One API group: the package that declares it, and its served versions, the preferred one
    first.

    The package has one module per version (`v1`), `resources` (RESOURCES), and, if needed,
    `internal` (hub types that no version has), `conversion` (CONVERSIONS), `defaults` (DEFAULTS),
    `validation` (VALIDATIONS), `strategies` (STRATEGIES), `selectable_fields` (FIELDS) and
    `columns` (COLUMNS): one literal table each, loaded at first use.
    """

    name: str
    package: str
    versions: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    """Versions with types whose objects are read and written, but never served."""
    find_module: Callable[[str], ModuleType | None] | None = None
    """Returns a module of the group by its name in the package, or None if there is none, for a
    group whose modules are made at run time; None for a package below `kapiserver/api`."""

    @property
    def group_versions(self) -> tuple[GroupVersion, ...]:
        """All served versions, the preferred one first."""
        return tuple(GroupVersion(self.name, version) for version in self.versions)

    @property
    def declared_versions(self) -> tuple[str, ...]:
        """All versions that have types: the served ones, then the others."""
        return (*self.versions, *self.unserved)
