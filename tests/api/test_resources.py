"""The resource tables agree with the types, with each other and with the rules of Kubernetes."""

from __future__ import annotations

from collections import Counter

import pytest

from kapiserver.api.group import ALL_VERBS, Group, GroupVersion, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Message, Type

SCHEME = Scheme()


ROWS = [(group, resource) for group in SCHEME.groups for resource in SCHEME.resources(group.name)]
RESOURCES = [resource for _, resource in ROWS]
NAMES = [resource.qualified_name for resource in RESOURCES]

COMPUTED = {
    ("events", "source"),
    ("jobs", "status.successful"),
}
"""Selectable fields that are computed, and so have no path in the type."""


def types(resource: Resource) -> list[type[Kind]]:
    """Return the resource's kind in each of its versions."""
    return [
        SCHEME.type_of(GroupVersion(resource.group, version).with_kind(resource.kind))
        for version in resource.versions
    ]


@pytest.mark.parametrize(("group", "resource"), ROWS, ids=NAMES)
def test_kinds_and_versions(group: Group, resource: Resource) -> None:
    """The versions of a resource belong to its group and declare its kind, with a list kind if it
    can be listed. It is stored in one of them."""
    assert resource.group == group.name
    assert resource.storage_version in resource.versions
    versions = group.declared_versions
    assert [version for version in versions if version in resource.versions] == list(
        resource.versions
    )
    for type_ in types(resource):
        assert type_.__name__ == resource.kind
        assert type_.listed == ("list" in resource.verbs)


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_verbs(resource: Resource) -> None:
    """Verbs are sorted and known. Resources that are not stored have no verbs that need a store."""
    assert [verb for verb in ALL_VERBS if verb in resource.verbs] == list(resource.verbs)
    assert resource.stored == ("update" in resource.verbs)
    for subresource in resource.subresources:
        assert list(subresource.verbs) == sorted(subresource.verbs)
    names = [subresource.name for subresource in resource.subresources]
    assert names == sorted(set(names))


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_subresources(resource: Resource) -> None:
    """A `status` subresource needs a status, kinds of other bodies are declared, and `scale` needs
    replicas."""
    for subresource in resource.subresources:
        if subresource.kind is not None:
            assert SCHEME.type_of(subresource.kind).__name__ == subresource.kind.kind
        for type_ in types(resource):
            if subresource.name == "status":
                assert has_field(type_, "status")
            if subresource.name == "scale":
                assert has_field(type_, "spec.replicas")
                assert has_field(type_, "status.replicas")


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_selectable_fields(resource: Resource) -> None:
    """Each selectable field is in the storage version, or computed."""
    kind = GroupVersion(resource.group, resource.storage_version).with_kind(resource.kind)
    for path in resource.selectable_fields:
        assert (resource.name, path) in COMPUTED or has_field(SCHEME.type_of(kind), path), path
    stored_fields = SCHEME.storage_resource(resource).selectable_fields
    for alias, path in resource.field_aliases:
        assert alias not in resource.selectable_fields
        assert path in stored_fields or path.startswith("metadata.")


def has_field(type_: type[Type], path: str) -> bool:
    """Return whether a type has a field at a dotted path."""
    head, _, remainder = path.partition(".")
    fields = [flat.field for flat in type_.flat_fields() if flat.field.name == head]
    if not fields or not remainder:
        return bool(fields)
    shape = fields[0].shape
    return isinstance(shape, Message) and has_field(shape.type, remainder)


@pytest.mark.parametrize("group", SCHEME.groups, ids=lambda group: group.package)
def test_order(group: Group) -> None:
    """Tables are ordered by name, and names are unique."""
    names = [resource.name for resource in SCHEME.resources(group.name)]
    assert names == sorted(set(names))


def test_names_are_unambiguous() -> None:
    """No two resources share a key prefix, a name or a short name, except for the two kinds of
    events."""
    stored = [resource for resource in RESOURCES if resource.stored]
    prefixes = Counter(resource.prefix for resource in stored)
    assert [stored_resource for stored_resource, count in prefixes.items() if count > 1] == [
        "events"
    ]
    words = [
        word
        for stored_resource in stored
        for word in {
            stored_resource.name,
            stored_resource.singular_name,
            *stored_resource.short_names,
        }
    ]
    assert {stored_resource for stored_resource, count in Counter(words).items() if count > 1} == {
        "events",
        "event",
        "ev",
    }


def test_served_groups() -> None:
    """All group versions of 1.37 are served, with the same number of resources."""
    assert sum(len(group.versions) for group in SCHEME.groups) == 36
    assert sum(len(resource.versions) for resource in RESOURCES) == 100
