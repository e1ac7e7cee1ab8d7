"""resource.k8s.io/v1alpha3: devices: what there is, what is claimed and who got it."""

from __future__ import annotations

from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class CELDeviceSelector(Type):
    """A device selected by an expression."""

    expression: str = field(1, always=True, required=True, doc="True for a device that fits.")


class DeviceSelector(Type):
    """Which devices fit."""

    cel: CELDeviceSelector | None = field(1)


class DeviceTaint(Type):
    """A mark that keeps claims off a device."""

    key: str = field(1, always=True, required=True)
    value: str = field(2)
    effect: str = field(3, always=True, required=True, enum=("None", "NoSchedule", "NoExecute"))
    timeAdded: Time | None = field(4)


class DeviceTaintRule(Kind):
    """Puts a taint on devices."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DeviceTaintRuleSpec = field(2, required=True, doc="The desired state.")
    status: DeviceTaintRuleStatus = field(3, doc="The observed state.")


class DeviceTaintRuleSpec(Type):
    """Which devices, which taint."""

    deviceSelector: DeviceTaintSelector | None = field(1)
    taint: DeviceTaint = field(2, required=True)


class DeviceTaintRuleStatus(Type):
    """What is known of a rule."""

    conditions: list[Condition] = field(1, keys=("type",), merge="type")


class DeviceTaintSelector(Type):
    """Devices by driver, pool and name."""

    driver: str | None = field(2)
    pool: str | None = field(3)
    device: str | None = field(4)


class PartitionTypeStatus(Type):
    """How many devices of one partition type there are."""

    attribute: str = field(4, required=True)
    type: str = field(1, required=True)
    total: int32 | None = field(2, required=True)
    allocatable: int32 | None = field(3, required=True)


class PoolStatus(Type):
    """What is free and taken in one pool."""

    driver: str = field(1, required=True)
    poolName: str = field(2, required=True)
    generation: int64 = field(9, always=True, required=True)
    resourceSliceCount: int32 | None = field(8)
    totalDevices: int32 | None = field(4)
    allocatedDevices: int32 | None = field(5)
    availableDevices: int32 | None = field(6)
    unavailableDevices: int32 | None = field(7)
    nodeName: str | None = field(3)
    validationError: str | None = field(10)
    partitionSummary: list[PartitionTypeStatus] = field(11)
    shareableSummary: ShareableSummaryStatus | None = field(13)


class ResourcePoolStatusRequest(Kind):
    """Asks how much of a driver's pools is taken."""

    metadata: ObjectMeta = field(1, required=True, doc="Standard object metadata.")
    spec: ResourcePoolStatusRequestSpec = field(2, required=True, doc="The desired state.")
    status: ResourcePoolStatusRequestStatus | None = field(3, doc="The observed state.")


class ResourcePoolStatusRequestSpec(Type):
    """Which driver and pools."""

    driver: str = field(1, always=True, required=True)
    poolName: str | None = field(2)
    limit: int32 | None = field(3, default=100)
    defaultPartitionTypeAttribute: str | None = field(4)


class ResourcePoolStatusRequestStatus(Type):
    """The pools as they are."""

    poolCount: int32 | None = field(6, required=True)
    pools: list[PoolStatus] = field(2)
    conditions: list[Condition] = field(3, keys=("type",), merge="type")


class ShareableCapacityStatus(Type):
    """How much of one capacity is taken."""

    name: str = field(1, required=True)
    total: Quantity | None = field(2, required=True)
    consumed: Quantity | None = field(3, required=True)
    available: Quantity | None = field(4, required=True)


class ShareableSummaryStatus(Type):
    """How far the devices that can be shared are taken."""

    fullyAvailableDevices: int32 | None = field(1, required=True)
    partiallyAvailableDevices: int32 | None = field(2, required=True)
    capacity: list[ShareableCapacityStatus] = field(3)
