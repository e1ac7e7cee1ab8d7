"""resource.k8s.io/v1alpha3: the device taints of v1, and requests for the status of pools."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.resource import v1
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field, inherit_types, int32, int64

inherit_types(
    __name__,
    v1,
    only=(
        "CELDeviceSelector",
        "DeviceSelector",
        "DeviceTaint",
        "DeviceTaintRule",
        "DeviceTaintRuleSpec",
        "DeviceTaintRuleStatus",
        "DeviceTaintSelector",
    ),
)


class PartitionTypeStatus(Type):
    """How many devices of one partition type there are."""

    attribute: str = field(4, required=True, doc="The value of the attribute.")
    type: str = field(1, required=True, doc="Which of the kinds it is.")
    total: int32 | None = field(2, required=True, doc="How many there are.")
    allocatable: int32 | None = field(3, required=True, doc="How much pods may use.")


class PoolStatus(Type):
    """What is free and taken in one pool."""

    driver: str = field(1, required=True, doc="The driver that it belongs to.")
    poolName: str = field(2, required=True, doc="The pool, by name.")
    generation: int64 = field(9, always=True, required=True, doc="Which edition it is.")
    resourceSliceCount: int32 | None = field(8, doc="In how many slices the pool is.")
    totalDevices: int32 | None = field(4, doc="How many devices there are.")
    allocatedDevices: int32 | None = field(5, doc="How many are taken.")
    availableDevices: int32 | None = field(6, doc="How many are free.")
    unavailableDevices: int32 | None = field(7, doc="How many can be had by nobody.")
    nodeName: str | None = field(3, doc="The node, by name.")
    validationError: str | None = field(10, doc="What is wrong with the pool.")
    partitionSummary: list[PartitionTypeStatus] = field(11, doc="How many of each sort of part.")
    shareableSummary: ShareableSummaryStatus | None = field(13, doc="How much of shared devices.")


class ResourcePoolStatusRequest(Kind):
    """Asks how much of a driver's pools is taken."""

    metadata: ObjectMeta = field(1, required=True, doc="Standard object metadata.")
    spec: ResourcePoolStatusRequestSpec = field(2, required=True, doc="The desired state.")
    status: ResourcePoolStatusRequestStatus | None = field(3, doc="The observed state.")


class ResourcePoolStatusRequestSpec(Type):
    """Which driver and pools."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    poolName: str | None = field(2, doc="The pool, by name.")
    limit: int32 | None = field(3, default=100, doc="At most that many items.")
    defaultPartitionTypeAttribute: str | None = field(
        4, doc="The attribute that tells sorts of parts apart."
    )


class ResourcePoolStatusRequestStatus(Type):
    """The pools as they are."""

    poolCount: int32 | None = field(6, required=True, doc="How many pools there are.")
    pools: list[PoolStatus] = field(2, doc="The pools, one by one.")
    conditions: list[Condition] = field(
        3, keys=("type",), merge="type", doc="What was found out about it."
    )


class ShareableCapacityStatus(Type):
    """How much of one capacity is taken."""

    name: str = field(1, required=True, doc="Its name.")
    total: Quantity | None = field(2, required=True, doc="How many there are.")
    consumed: Quantity | None = field(3, required=True, doc="How much is taken.")
    available: Quantity | None = field(4, required=True, doc="How much is left.")


class ShareableSummaryStatus(Type):
    """How far the devices that can be shared are taken."""

    fullyAvailableDevices: int32 | None = field(1, required=True, doc="How many are wholly free.")
    partiallyAvailableDevices: int32 | None = field(
        2, required=True, doc="How many are partly free."
    )
    capacity: list[ShareableCapacityStatus] = field(3, doc="How much there is.")
