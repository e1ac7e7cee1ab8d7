"""resource.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.resource import v1
from kapiserver.api.types import Type, field, inherit_types, int64, override_field, remove_field

if TYPE_CHECKING:
    from kapiserver.api.resource.v1 import (
        CapacityRequirements,
        DeviceDerivedAttribute,
        DeviceSelector,
        DeviceToleration,
    )

inherit_types(
    __name__,
    v1,
    without=(
        "DeviceTaintRule",
        "DeviceTaintRuleSpec",
        "DeviceTaintRuleStatus",
        "DeviceTaintSelector",
        "ExactDeviceRequest",
    ),
)


class BasicDevice(v1.Device):
    """The attributes and capacity of a device, and the nodes that can use it."""

    name = remove_field()
    attributes = override_field(number=1)
    capacity = override_field(number=2)
    consumesCounters = override_field(number=3)
    nodeName = override_field(number=4)
    nodeSelector = override_field(number=5)
    allNodes = override_field(number=6)
    taints = override_field(number=7)
    bindsToNode = override_field(number=8)
    bindingConditions = override_field(number=9)
    bindingFailureConditions = override_field(number=10)
    allowMultipleAllocations = override_field(number=11)


class Device(Type):
    """One device that a driver offers."""

    name: str = field(
        1, always=True, required=True, doc="Name of the device in its pool, a unique DNS label."
    )
    basic: BasicDevice | None = field(
        2,
        doc=(
            "The attributes, capacity and nodes of the device. Later versions have these fields "
            "in the device itself."
        ),
    )


class DeviceRequest(Type):
    """A request for one or more devices, or for the first of several alternatives."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the request, a DNS label to which pods, constraints and configuration refer."
        ),
    )
    deviceClassName: str = field(
        2,
        always=True,
        doc=(
            "The device class whose selectors and configuration apply. Excludes firstAvailable, "
            "of which one must be set."
        ),
    )
    selectors: list[DeviceSelector] = field(
        3,
        doc=(
            "Conditions that a device must satisfy besides those of its class, at most 32; all "
            "must be true. Excludes firstAvailable."
        ),
    )
    allocationMode: str = field(
        4,
        enum=("ExactCount", "All"),
        doc=(
            "ExactCount (the default) allocates count devices, All allocates every matching "
            "device. Excludes firstAvailable."
        ),
    )
    count: int64 = field(
        5,
        doc=(
            "Number of devices to allocate in the mode ExactCount; 1 by default. Unset in the "
            "mode All and with firstAvailable."
        ),
    )
    adminAccess: bool | None = field(
        6,
        doc=(
            "If true, the devices may be in use by other claims. The namespace needs the label "
            "resource.kubernetes.io/admin-access. Excludes firstAvailable."
        ),
    )
    firstAvailable: list[DeviceSubRequest] = field(
        7,
        doc=(
            "Alternatives in order of preference, at most 8; the first that can be satisfied "
            "counts. Excludes deviceClassName and the fields that go with it."
        ),
    )
    tolerations: list[DeviceToleration] = field(
        8, doc="Taints of devices that the request accepts. Excludes firstAvailable."
    )
    capacity: CapacityRequirements | None = field(
        9,
        doc=(
            "The amounts of capacity that each device must have, or that are consumed of a shared "
            "device. Excludes firstAvailable."
        ),
    )
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        10,
        doc=(
            "Attributes to compute from each candidate device, for the constraints of the claim. "
            "Excludes firstAvailable."
        ),
    )


class DeviceSubRequest(v1.DeviceSubRequest):
    tolerations = override_field(number=7)
    capacity = override_field(number=8)
    derivedAttributes = override_field(number=9)


class ResourceSliceSpec(v1.ResourceSliceSpec):
    nodeName: str = field(
        3,
        doc=(
            "The node that has the devices; it cannot be changed. Excludes nodeSelector, allNodes "
            "and perDeviceNodeSelection; an empty name is unset."
        ),
    )
    allNodes: bool = field(
        5,
        doc=(
            "True if all nodes can use the devices. Excludes nodeName, nodeSelector and "
            "perDeviceNodeSelection."
        ),
    )
