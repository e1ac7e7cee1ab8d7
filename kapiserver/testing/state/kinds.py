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
        is_in_group = not has_group or resource.group == wanted_group
        if is_in_group and name.lower() in _lower_names(resource):
            return resource
    raise ValueError(f"the server has no resource {text!r}")


def check_plural(scheme: Scheme, text: str) -> None:
    """Raise ValueError for a resource of requests, as in rules of RBAC, that has another name of a
    served resource than its plural: requests have only the plural."""
    name, _, group = text.partition("/")[0].partition(".")
    resources = [resource for resource in all_resources(scheme) if group in ("", resource.group)]
    if any(resource.name == name for resource in resources):
        return
    for resource in resources:
        if name.lower() in _lower_names(resource):
            raise ValueError(
                f"{text!r} is not the plural name of a resource; write {resource.name}"
            )


def _lower_names(resource: Resource) -> list[str]:
    names = (resource.name, resource.kind, resource.singular_name, *resource.short_names)
    return [name.lower() for name in names]


def all_resources(scheme: Scheme) -> Iterator[Resource]:
    """Yield the served resources that have stored objects, in the order of discovery."""
    for group in scheme.groups:
        yield from (resource for resource in scheme.resources(group.name) if resource.stored)


def preferred_version(resource: Resource) -> GroupVersion:
    """Return the version in which a test sees the objects of a resource."""
    return GroupVersion(resource.group, resource.versions[0])
