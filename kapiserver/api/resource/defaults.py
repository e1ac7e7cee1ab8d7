"""Defaulting of the resource group, besides the defaults that its types declare.

Mirrors pkg/apis/resource/v1/defaults.go and its siblings.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.resource import v1, v1beta1, v1beta2
from kapiserver.api.types import Tree, Type


def _allocation_defaults(type_: type[Type]) -> DefaultFunction:
    def fill(request: Tree) -> None:
        if not request.get("allocationMode"):
            request["allocationMode"] = "ExactCount"
        if request["allocationMode"] == "ExactCount" and not request.get("count"):
            request["count"] = 1
        reorder_keys(request, type_)

    return fill


def _default_v1beta1_request(request: Tree) -> None:
    # A request without `firstAvailable` has the fields of an exact request.
    if not request.get("firstAvailable"):
        _allocation_defaults(v1beta1.DeviceRequest)(request)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1beta1.DeviceRequest: _default_v1beta1_request,
    v1beta1.DeviceSubRequest: _allocation_defaults(v1beta1.DeviceSubRequest),
}
for _version in (v1, v1beta2):
    for _type in (_version.DeviceSubRequest, _version.ExactDeviceRequest):
        DEFAULTS[_type] = _allocation_defaults(_type)
