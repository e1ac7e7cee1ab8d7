"""resource.k8s.io/v1beta1: the types of v1, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.core.v1 import NodeSelector
from kapiserver.api.resource import v1
from kapiserver.api.types import Type, field, inherit_types, int64, override_field

if TYPE_CHECKING:
    from kapiserver.api.resource.v1 import (
        CapacityRequirements,
        DeviceAttribute,
        DeviceCapacity,
        DeviceCounterConsumption,
        DeviceDerivedAttribute,
        DeviceSelector,
        DeviceTaint,
        DeviceToleration,
        NodeAllocatableResource,
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


class BasicDevice(Type):
    """What a device offers, and which nodes can use it."""

    attributes: dict[str, DeviceAttribute] = field(
        1,
        doc="Facts by which selectors and constraints choose the device, by name. At most 32 "
        "attributes and capacities together.",
    )
    capacity: dict[str, DeviceCapacity] = field(
        2,
        doc="Quantities that the device has, such as memory: 80Gi, by name. At most 32 "
        "attributes and capacities together.",
    )
    consumesCounters: list[DeviceCounterConsumption] = field(
        3, doc="What the device draws from the shared counter sets of its pool, at most 2 sets."
    )
    nodeName: str | None = field(
        4,
        doc="The node that can use the device. Needs perDeviceNodeSelection in the slice; "
        "excludes nodeSelector and allNodes.",
    )
    nodeSelector: NodeSelector | None = field(
        5,
        doc="The nodes that can use the device. Needs perDeviceNodeSelection in the slice; "
        "excludes nodeName and allNodes.",
    )
    allNodes: bool | None = field(
        6,
        doc="True if all nodes can use the device; false is not allowed. Needs "
        "perDeviceNodeSelection in the slice.",
    )
    taints: list[DeviceTaint] = field(
        7,
        doc="Taints that the driver sets, at most 16. A request must tolerate them to get the "
        "device.",
    )
    bindsToNode: bool | None = field(
        8,
        doc="If true, a claim with the device is usable only on the node for which it was "
        "allocated. Defaults to false.",
    )
    bindingConditions: list[str] = field(
        9,
        doc="Condition types that must be true before pods with the device are bound, at most "
        "4. Requires bindingFailureConditions.",
    )
    bindingFailureConditions: list[str] = field(
        10,
        doc="Condition types of which a true one undoes the allocation, at most 4. Requires "
        "bindingConditions.",
    )
    allowMultipleAllocations: bool | None = field(
        11,
        doc="If true, several requests may share the device and consume parts of its capacity. "
        "Defaults to false.",
    )
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = field(
        14,
        doc="The resources of the node that the device takes up, by resource name, such as "
        "memory or cpu.",
    )


class Device(Type):
    """One device that a driver offers."""

    name: str = field(
        1, always=True, required=True, doc="Name of the device in its pool, a unique DNS label."
    )
    basic: BasicDevice | None = field(
        2,
        doc="The attributes, capacity and nodes of the device. Later versions have these fields "
        "in the device itself.",
    )


class DeviceRequest(Type):
    """A request for one or more devices, or for the first of several alternatives."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the request, a DNS label to which pods, constraints and configuration refer.",
    )
    deviceClassName: str = field(
        2,
        always=True,
        doc="The device class whose selectors and configuration apply. Excludes firstAvailable, "
        "of which one must be set.",
    )
    selectors: list[DeviceSelector] = field(
        3,
        doc="What a device must satisfy beyond the selectors of its class; all of at most 32 "
        "must match. Excludes firstAvailable.",
    )
    allocationMode: str = field(
        4,
        enum=("ExactCount", "All"),
        doc="ExactCount (the default) allocates count devices, All allocates every matching "
        "device. Excludes firstAvailable.",
    )
    count: int64 = field(
        5,
        doc="How many devices to allocate in the mode ExactCount; 1 by default. Unset in the "
        "mode All and with firstAvailable.",
    )
    adminAccess: bool | None = field(
        6,
        doc="If true, the devices may be in use by others, as for monitoring. The namespace "
        "needs the label resource.kubernetes.io/admin-access.",
    )
    firstAvailable: list[DeviceSubRequest] = field(
        7,
        doc="Alternatives in order of preference, at most 8; the first that can be satisfied "
        "counts. Excludes deviceClassName and the fields that go with it.",
    )
    tolerations: list[DeviceToleration] = field(
        8, doc="Taints of devices that the request accepts. Excludes firstAvailable."
    )
    capacity: CapacityRequirements | None = field(
        9,
        doc="The amounts of capacity that each device must have, or that are consumed of a "
        "shared device. Excludes firstAvailable.",
    )
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        10,
        doc="Attributes to compute from each candidate device, for the constraints of the "
        "claim. Excludes firstAvailable.",
    )


class DeviceSubRequest(v1.DeviceSubRequest):
    tolerations = override_field(number=7)
    capacity = override_field(number=8)
    derivedAttributes = override_field(number=9)


class ResourceSliceSpec(v1.ResourceSliceSpec):
    nodeName: str = field(
        3,
        doc="The node that has the devices; it cannot be changed. Excludes nodeSelector, "
        "allNodes and perDeviceNodeSelection; an empty name is unset.",
    )
    allNodes: bool = field(
        5,
        doc="True if all nodes can use the devices. Excludes nodeName, nodeSelector and "
        "perDeviceNodeSelection.",
    )
