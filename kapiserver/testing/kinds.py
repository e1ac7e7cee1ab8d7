"""Finds the resource that a test names, in the ways that kubectl accepts: `pod`, `po`, `Pod`,
`deployments.apps`, `apps/v1/Deployment`."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.scheme import Scheme


def find_resource(scheme: Scheme, text: str) -> Resource:
    """Return the resource of a kind, plural, singular or short name, with or without the group, or
    of `group/version/Kind`. The first one in the order of discovery counts. Raises ValueError."""
    version, _, name = text.rpartition("/")
    name, _, group = name.partition(".")
    wanted_group = GroupVersion.parse(version).group if version else group
    has_group = bool(version or group)
    for resource in all_resources(scheme):
        names = (resource.name, resource.kind, resource.singular_name, *resource.short_names)
        if name.lower() in map(str.lower, names) and (
            not has_group or resource.group == wanted_group
        ):
            return resource
    raise ValueError(f"the server has no resource {text!r}")


def all_resources(scheme: Scheme) -> Iterator[Resource]:
    """Yield the served resources that have stored objects, in the order of discovery."""
    for group in scheme.groups:
        yield from (resource for resource in scheme.resources(group.name) if resource.stored)


def preferred_version(resource: Resource) -> GroupVersion:
    """Return the version in which a test sees the objects of a resource."""
    return GroupVersion(resource.group, resource.versions[0])
