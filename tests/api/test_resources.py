"""The tables of resources agree with the types, with each other and with Kubernetes' rules."""

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
"""Selectable fields that no object has at that path."""


def types(resource: Resource) -> list[type[Kind]]:
    """The resource's kind in each of its versions."""
    return [
        SCHEME.type_of(GroupVersion(resource.group, version).with_kind(resource.kind))
        for version in resource.versions
    ]


@pytest.mark.parametrize(("group", "resource"), ROWS, ids=NAMES)
def test_kinds_and_versions(group: Group, resource: Resource) -> None:
    """Each version that a resource names is its group's and declares its kind, with a list if
    there is anything to list; it is stored in one of them."""
    assert resource.group == group.name
    assert resource.storage_version in resource.versions
    known = group.declared_versions
    assert [one for one in known if one in resource.versions] == list(resource.versions)
    for type_ in types(resource):
        assert type_.__name__ == resource.kind
        assert type_.listed == ("list" in resource.verbs)


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_verbs(resource: Resource) -> None:
    """Verbs are sorted and known; what is not stored has none that need a store."""
    assert [verb for verb in ALL_VERBS if verb in resource.verbs] == list(resource.verbs)
    assert resource.stored == ("update" in resource.verbs)
    for subresource in resource.subresources:
        assert list(subresource.verbs) == sorted(subresource.verbs)
    names = [subresource.name for subresource in resource.subresources]
    assert names == sorted(set(names))


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_subresources(resource: Resource) -> None:
    """`status` goes with a status; bodies of other kinds are declared; what scales has replicas."""
    for subresource in resource.subresources:
        if subresource.kind is not None:
            assert SCHEME.type_of(subresource.kind).__name__ == subresource.kind.kind
        for type_ in types(resource):
            if subresource.name == "status":
                assert at(type_, "status")
            if subresource.name == "scale":
                assert at(type_, "spec.replicas")
                assert at(type_, "status.replicas")


@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_selectable_fields(resource: Resource) -> None:
    """Every field that can be selected by is there in the version that is stored, or computed."""
    kind = GroupVersion(resource.group, resource.storage_version).with_kind(resource.kind)
    for path in resource.selectable_fields:
        assert (resource.name, path) in COMPUTED or at(SCHEME.type_of(kind), path), path
    kept = SCHEME.storage_resource(resource).selectable_fields
    for alias, path in resource.field_aliases:
        assert alias not in resource.selectable_fields
        assert path in kept or path.startswith("metadata.")


def at(type_: type[Type], path: str) -> bool:
    """Whether a type has a field at a dotted path."""
    head, _, rest = path.partition(".")
    found = [flat.field for flat in type_.flat_fields() if flat.field.name == head]
    if not found or not rest:
        return bool(found)
    shape = found[0].shape
    return isinstance(shape, Message) and at(shape.type, rest)


@pytest.mark.parametrize("group", SCHEME.groups, ids=lambda group: group.package)
def test_order(group: Group) -> None:
    """Tables are in the order of their names, each of which stands for one resource."""
    names = [one.name for one in SCHEME.resources(group.name)]
    assert names == sorted(set(names))


def test_names_are_unambiguous() -> None:
    """No two resources share a key prefix or a name for people, but the events of both groups."""
    stored = [resource for resource in RESOURCES if resource.stored]
    prefixes = Counter(resource.prefix for resource in stored)
    assert [one for one, count in prefixes.items() if count > 1] == ["events"]
    words = [word for one in stored for word in {one.name, one.singular_name, *one.short_names}]
    assert {one for one, count in Counter(words).items() if count > 1} == {"events", "event", "ev"}


def test_served_groups() -> None:
    """All group-versions of 1.37 are served, with 99 resources of versions and one of bindings."""
    assert sum(len(group.versions) for group in SCHEME.groups) == 36
    assert sum(len(resource.versions) for resource in RESOURCES) == 100
