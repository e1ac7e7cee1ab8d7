"""Conversion of resource.k8s.io/v1beta1, which differs from the hub: a device request has the
fields of `exactly` itself, a device has its attributes below `basic`, and the node name of a slice
may be empty.

Mirrors pkg/apis/resource/v1beta1/conversion.go.
"""

from __future__ import annotations

from kapiserver.api.conversion import Conversion, Functions
from kapiserver.api.resource import v1, v1beta1
from kapiserver.api.types import Tree, Value

_EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)

_NODE_FIELDS = ("nodeName", "allNodes")


def _no_conversion(source: Tree, target: Tree) -> None:
    """Do nothing. Fields of the same name are copied already, the others are converted
    elsewhere."""


_PART_CONVERSIONS = Conversion(
    {
        (v1beta1.DeviceRequest, v1.ExactDeviceRequest): _no_conversion,
        (v1.ExactDeviceRequest, v1beta1.DeviceRequest): _no_conversion,
        (v1beta1.BasicDevice, v1.Device): _no_conversion,
        (v1.Device, v1beta1.BasicDevice): _no_conversion,
    }
)
# Compiled at import, so that a missing conversion is noticed at once.
_to_exact_request = _PART_CONVERSIONS.converter(v1beta1.DeviceRequest, v1.ExactDeviceRequest)
_from_exact_request = _PART_CONVERSIONS.converter(v1.ExactDeviceRequest, v1beta1.DeviceRequest)
_from_basic = _PART_CONVERSIONS.converter(v1beta1.BasicDevice, v1.Device)
_to_basic = _PART_CONVERSIONS.converter(v1.Device, v1beta1.BasicDevice)


def _is_set(value: Value) -> bool:
    # `adminAccess` is a pointer in Go: false counts as set.
    return value is False or value not in (None, "", 0, [])


def _request_from_v1beta1(source: Tree, target: Tree) -> None:
    if any(_is_set(source.get(name)) for name in _EXACT):
        target["exactly"] = _to_exact_request(source)


def _request_to_v1beta1(source: Tree, target: Tree) -> None:
    if source.get("exactly") is not None:
        target |= {**_from_exact_request(source["exactly"]), "name": source.get("name", "")}


def _device_from_v1beta1(source: Tree, target: Tree) -> None:
    if source.get("basic") is not None:
        target |= {**_from_basic(source["basic"]), "name": source.get("name", "")}


def _device_to_v1beta1(source: Tree, target: Tree) -> None:
    target["basic"] = _to_basic(source)


def _slice_from_v1beta1(source: Tree, target: Tree) -> None:
    # In v1beta1, an empty value is the same as none.
    target.update((name, source[name]) for name in _NODE_FIELDS if source.get(name))


def _slice_to_v1beta1(source: Tree, target: Tree) -> None:
    target.update((name, source[name]) for name in _NODE_FIELDS if source.get(name) is not None)


CONVERSIONS: Functions = {
    (v1beta1.ResourceSliceSpec, v1.ResourceSliceSpec): _slice_from_v1beta1,
    (v1.ResourceSliceSpec, v1beta1.ResourceSliceSpec): _slice_to_v1beta1,
    (v1beta1.DeviceRequest, v1.DeviceRequest): _request_from_v1beta1,
    (v1.DeviceRequest, v1beta1.DeviceRequest): _request_to_v1beta1,
    (v1beta1.Device, v1.Device): _device_from_v1beta1,
    (v1.Device, v1beta1.Device): _device_to_v1beta1,
}
