"""What differs in resource.k8s.io/v1beta1: a request spells out one device without `exactly`, a
device has its facts below `basic`, and a slice may come from a node without a name.

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

_ORIGINS = ("nodeName", "allNodes")


def _same_names(source: Tree, target: Tree) -> None:
    """Nothing to add: what both have was carried over, the rest has its place elsewhere."""


_PARTS = Conversion(
    {
        (v1beta1.DeviceRequest, v1.ExactDeviceRequest): _same_names,
        (v1.ExactDeviceRequest, v1beta1.DeviceRequest): _same_names,
        (v1beta1.BasicDevice, v1.Device): _same_names,
        (v1.Device, v1beta1.BasicDevice): _same_names,
    }
)
# Compiled with the module, so that a missing function shows before any object comes.
_exactly = _PARTS.converter(v1beta1.DeviceRequest, v1.ExactDeviceRequest)
_spelled_out = _PARTS.converter(v1.ExactDeviceRequest, v1beta1.DeviceRequest)
_from_basic = _PARTS.converter(v1beta1.BasicDevice, v1.Device)
_to_basic = _PARTS.converter(v1.Device, v1beta1.BasicDevice)


def _is_said(value: Value) -> bool:
    # `adminAccess: false` says something: it is a pointer in Go.
    return value is False or value not in (None, "", 0, [])


def _request_from_v1beta1(source: Tree, target: Tree) -> None:
    if any(_is_said(source.get(name)) for name in _EXACT):
        target["exactly"] = _exactly(source)


def _request_to_v1beta1(source: Tree, target: Tree) -> None:
    if source.get("exactly") is not None:
        target |= {**_spelled_out(source["exactly"]), "name": source.get("name", "")}


def _device_from_v1beta1(source: Tree, target: Tree) -> None:
    if source.get("basic") is not None:
        target |= {**_from_basic(source["basic"]), "name": source.get("name", "")}


def _device_to_v1beta1(source: Tree, target: Tree) -> None:
    target["basic"] = _to_basic(source)


def _slice_from_v1beta1(source: Tree, target: Tree) -> None:
    # Where a slice is from: v1beta1 cannot tell an empty answer from none.
    target.update((name, source[name]) for name in _ORIGINS if source.get(name))


def _slice_to_v1beta1(source: Tree, target: Tree) -> None:
    target.update((name, source[name]) for name in _ORIGINS if source.get(name) is not None)


CONVERSIONS: Functions = {
    (v1beta1.ResourceSliceSpec, v1.ResourceSliceSpec): _slice_from_v1beta1,
    (v1.ResourceSliceSpec, v1beta1.ResourceSliceSpec): _slice_to_v1beta1,
    (v1beta1.DeviceRequest, v1.DeviceRequest): _request_from_v1beta1,
    (v1.DeviceRequest, v1beta1.DeviceRequest): _request_to_v1beta1,
    (v1beta1.Device, v1.Device): _device_from_v1beta1,
    (v1.Device, v1beta1.Device): _device_to_v1beta1,
}
