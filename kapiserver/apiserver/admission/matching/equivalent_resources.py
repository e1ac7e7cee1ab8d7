"""Equivalent resources: all served versions and groups of the objects of one store.

Mirrors runtime.EquivalentResourceRegistry of k8s.io/apimachinery.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.group import GroupVersion, GroupVersionKind, GroupVersionResource, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission.matching.rules import RequestedResource, ResourceVariant
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.target import Target


def requested_resource(attributes: Attributes) -> RequestedResource:
    """Return the attributes of a request that rules look at."""
    target = attributes.target
    version = target.version
    resource = GroupVersionResource(version.group, version.version, target.resource.name)
    return RequestedResource(
        operation=attributes.operation,
        variant=ResourceVariant(resource, target.kind),
        subresource=target.subresource,
        is_namespaced=bool(target.key.namespace),
    )


def equivalent_resources(scheme: Scheme, target: Target) -> tuple[ResourceVariant, ...]:
    """Return the other variants of a target that serve the same subresource, those of its own group
    first."""
    requested = (target.version, target.resource.name)
    return tuple(
        ResourceVariant(
            GroupVersionResource(version.group, version.version, resource.name),
            _kind(resource, version, target.subresource),
        )
        for resource, version in _variants(scheme, target)
        if (version, resource.name) != requested and _serves(resource, target.subresource)
    )


def _variants(scheme: Scheme, target: Target) -> Iterator[tuple[Resource, GroupVersion]]:
    if target.resource.definition:
        definition = scheme.custom.by_plural(target.resource.group, target.resource.name)
        for custom in definition.versions.values() if definition is not None else ():
            if custom.served:
                yield custom.resource, custom.group_version
        return
    store_key = scheme.storage_resource(target.resource).store_key
    own_group_first = sorted(
        scheme.groups, key=lambda group: (group.name != target.resource.group, group.name)
    )
    for group in own_group_first:
        for resource in scheme.resources(group.name):
            if resource.definition or scheme.storage_resource(resource).store_key != store_key:
                continue
            for version in resource.versions:
                yield resource, GroupVersion(group.name, version)


def _serves(resource: Resource, subresource: str) -> bool:
    return not subresource or any(
        declared.name == subresource for declared in resource.subresources
    )


def _kind(resource: Resource, version: GroupVersion, subresource: str) -> GroupVersionKind:
    for declared in resource.subresources:
        if declared.name == subresource and declared.kind is not None:
            return declared.kind
    return version.with_kind(resource.kind)
