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
    """What a device is and has."""

    attributes: dict[str, DeviceAttribute] = field(1, doc="What is known of it, by name.")
    capacity: dict[str, DeviceCapacity] = field(2, doc="How much there is.")
    consumesCounters: list[DeviceCounterConsumption] = field(
        3, doc="What it takes of shared counters."
    )
    nodeName: str | None = field(4, doc="The node, by name.")
    nodeSelector: NodeSelector | None = field(5, doc="Labels that the node must have.")
    allNodes: bool | None = field(6, doc="Whether every node can reach it.")
    taints: list[DeviceTaint] = field(7, doc="What keeps away those who do not tolerate it.")
    bindsToNode: bool | None = field(8, doc="Whether its pods stay on the node.")
    bindingConditions: list[str] = field(9, doc="What must come true before pods are bound.")
    bindingFailureConditions: list[str] = field(10, doc="What ends the wait in failure.")
    allowMultipleAllocations: bool | None = field(11, doc="Whether several claims may share it.")
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = field(
        14, doc="What it takes of the node's resources."
    )


class Device(Type):
    """One device of a pool."""

    name: str = field(1, always=True, required=True, doc="Unique in the pool.")
    basic: BasicDevice | None = field(2, doc="Members are scheduled one by one.")


class DeviceRequest(Type):
    """One device, or some, that a claim asks for."""

    name: str = field(1, always=True, required=True, doc="What others call the request.")
    deviceClassName: str = field(2, always=True, doc="The class of the devices.")
    selectors: list[DeviceSelector] = field(3, doc="What a device must be, all of it.")
    allocationMode: str = field(4, enum=("ExactCount", "All"), doc="ExactCount or All.")
    count: int64 = field(5, doc="How many.")
    adminAccess: bool | None = field(6, doc="Whether it is for monitoring, beside other users.")
    firstAvailable: list[DeviceSubRequest] = field(
        7, doc="Sorts of devices, the first that there is is taken."
    )
    tolerations: list[DeviceToleration] = field(8, doc="Taints that are put up with.")
    capacity: CapacityRequirements | None = field(9, doc="How much there is.")
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        10, doc="Attributes that are computed of each device, for constraints."
    )


class DeviceSubRequest(v1.DeviceSubRequest):
    tolerations = override_field(number=7)
    capacity = override_field(number=8)
    derivedAttributes = override_field(number=9)


class ResourceSliceSpec(v1.ResourceSliceSpec):
    nodeName: str = field(3, doc="The node that has them.")
    allNodes: bool = field(5, doc="Whether every node can reach it.")
