"""What a group and a resource are, as data: names, versions, scope, verbs, subresources.

Routes, discovery, OpenAPI, tables and authorization attributes are derived from these. Nothing
here imports a type: discovery and start-up read resources without loading a single declaration.
Mirrors APIGroup and APIResource of meta/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupVersion(NamedTuple):
    """An API group and version; the core group's name is empty."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Read an `apiVersion`. Raises ValueError on more than one slash."""
        group, slash, version = api_version.rpartition("/")
        if "/" in group or (slash and not group):
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version)

    def with_kind(self, kind: str) -> GroupVersionKind:
        """The kind of that name in this group and version."""
        return GroupVersionKind(self.group, self.version, kind)


class GroupVersionKind(NamedTuple):
    """What an object says it is."""

    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> GroupVersion:
        """The group and version, without the kind."""
        return GroupVersion(self.group, self.version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


CORE = GroupVersion("", "v1")
"""The core group's only version: pods, services, namespaces."""

HUB = "__internal"
"""The version name of a hub that is none of the group's versions, never seen by a client."""

_STABLE = re.compile(r"v[0-9]+")


def is_stable(version: str) -> bool:
    """Whether it is a version without `alpha` or `beta`."""
    return _STABLE.fullmatch(version) is not None


_USUAL = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def sort_versions(versions: Iterable[str]) -> list[str]:
    """Version names in the order in which clients prefer them: v10, v2, v1, v2beta1, v1beta2,
    v1alpha1, then names of other forms by the alphabet."""
    return sorted(versions, key=_preference)


def _preference(version: str) -> tuple[int, int, int, str]:
    found = _USUAL.fullmatch(version)
    if found is None:
        return (3, 0, 0, version)
    major, stage, minor = found.groups()
    return ((None, "beta", "alpha").index(stage), -int(major), -int(minor or 0), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A path below one object: `status`, `scale`, `finalize`."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = None
    """The kind of its body where that is not the resource's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecation:
    """A version of a resource that clients should leave; releases are the minors of 1.x.

    removed   0: nobody said when
    use       what to use instead, where that is known
    warning   the whole text, where it is not made from these
    """

    version: str
    since: int = 0
    removed_in: int = 0
    replacement: GroupVersionKind | None = None
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a group, in all versions that serve it."""

    group: str
    name: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...]
    """Served versions, the preferred one first."""
    storage_version: str
    storage_prefix: str = ""
    """Below the root of all keys; the name where empty."""
    stored_in_group: str | None = None
    """The group whose resource of that name keeps the objects; None: this one."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    """Beside metadata.name and metadata.namespace."""
    field_aliases: tuple[tuple[str, str], ...] = ()
    """Other names of selectable fields: (alias, field of the resource that keeps the objects)."""
    unsupported_field_message: str = "field label not supported: {}"
    """What is said of other fields, where there are selectable ones."""
    returns_deleted_object: bool = False
    """A delete answers with the object that is gone, where others answer with a Status."""
    deprecations: tuple[Deprecation, ...] = ()
    legacy_marker: bytes = b""
    """What lies in the Protobuf of every object that is stored today. One without it an old server
    wrote: the kind's strategy completes it as it is read."""
    stored: bool = True
    """False for kinds that are only answered: reviews, bindings."""
    list_kind: str = ""
    """The kind of its lists; the kind and "List" where empty."""
    definition: str = ""
    """The CustomResourceDefinition it comes from. There is such a resource for each version, and
    its objects are handled in that version, whatever version they are stored in."""
    spec_hash: str = ""
    """Differs when the definition does."""

    @property
    def list_kind_name(self) -> str:
        """The kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def prefix(self) -> str:
        """Key segment(s) under which the objects are stored."""
        return self.storage_prefix or self.name

    @property
    def singular_name(self) -> str:
        """What discovery calls one of them."""
        return self.singular or self.kind.lower()

    @property
    def qualified_name(self) -> str:
        """`pods` or `deployments.apps`, as messages name a resource."""
        return f"{self.name}.{self.group}" if self.group else self.name


def deprecation_of(resource: Resource, version: GroupVersion) -> str:
    """What clients of a deprecated version are told; "" where it is not."""
    for one in resource.deprecations:
        if one.version == version.version:
            if one.warning is not None:
                return one.warning
            text = f"{version} {resource.kind} is deprecated in v1.{one.since}+"
            if one.removed_in:
                text += f", unavailable in v1.{one.removed_in}+"
            return (
                f"{text}; use {one.replacement.group_version} {one.replacement.kind}"
                if one.replacement
                else text
            )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One API group: the package that declares it, and the versions it serves, preferred first.

    The package has one module a version (`v1`), `resources` (RESOURCES), and where there is
    something to say `internal` (hub types that no version has), `conversion` (CONVERSIONS),
    `defaults` (DEFAULTS), `validation` (VALIDATIONS), `strategies` (STRATEGIES) and `columns`
    (COLUMNS): one literal table each, loaded at first use.
    """

    name: str
    package: str
    versions: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    """Versions that are declared as well: objects of them are read and written, never served."""

    @property
    def group_versions(self) -> tuple[GroupVersion, ...]:
        """All served versions, preferred first."""
        return tuple(GroupVersion(self.name, version) for version in self.versions)

    @property
    def declared_versions(self) -> tuple[str, ...]:
        """All versions that have types: served ones, then the others."""
        return (*self.versions, *self.unserved)
