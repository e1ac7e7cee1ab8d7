"""The resources of the resource group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Deprecation, Resource, Subresource

_resource = partial(
    Resource,
    group="resource.k8s.io",
    versions=("v1", "v1beta2", "v1beta1"),
    storage_version="v1",
    returns_deleted_object=True,
    deprecations=(
        Deprecation(version="v1beta2", since=36, removed_in=39),
        Deprecation(version="v1beta1", since=35, removed_in=38),
    ),
)
_STATUS = Subresource(name="status")

RESOURCES = (
    _resource(name="deviceclasses", kind="DeviceClass", namespaced=False),
    _resource(
        name="devicetaintrules",
        kind="DeviceTaintRule",
        namespaced=False,
        versions=("v1", "v1beta2", "v1alpha3"),
        storage_version="v1beta2",
        deprecations=(Deprecation(version="v1alpha3", since=36, removed_in=39),),
        subresources=(_STATUS,),
    ),
    _resource(
        name="resourceclaims", kind="ResourceClaim", namespaced=True, subresources=(_STATUS,)
    ),
    _resource(name="resourceclaimtemplates", kind="ResourceClaimTemplate", namespaced=True),
    _resource(
        name="resourcepoolstatusrequests",
        kind="ResourcePoolStatusRequest",
        namespaced=False,
        versions=("v1alpha3",),
        storage_version="v1alpha3",
        deprecations=(),
        subresources=(_STATUS,),
    ),
    _resource(
        name="resourceslices",
        kind="ResourceSlice",
        namespaced=False,
        selectable_fields=("spec.nodeName", "spec.driver", "spec.pool.name"),
        unsupported_field_message=(
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}"
        ),
    ),
)
