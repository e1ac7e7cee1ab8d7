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
    """The number of devices that a pool has of one partition type."""

    attribute: str = field(
        4,
        required=True,
        doc="Fully qualified name of the device attribute that names the partition type.",
    )
    type: str = field(
        1, required=True, doc="Value of the attribute that the counted devices have in common."
    )
    total: int32 | None = field(
        2, required=True, doc="Number of devices of the type in the pool, in use or not."
    )
    allocatable: int32 | None = field(
        3,
        required=True,
        doc=(
            "Number of devices of the type that the rest of the shared counters still allows to "
            "allocate."
        ),
    )


class PoolStatus(Type):
    """The counts of used and free devices in one pool."""

    driver: str = field(
        1, required=True, doc="Name of the DRA driver that offers the pool, a DNS subdomain."
    )
    poolName: str = field(
        2, required=True, doc="Name of the pool. With the driver's name, it identifies the pool."
    )
    generation: int64 = field(
        9,
        always=True,
        required=True,
        doc="The pool generation that was counted: the highest one among the slices of the pool.",
    )
    resourceSliceCount: int32 | None = field(
        8,
        doc=(
            "Number of slices in the pool at this generation. Absent if the pool could not be "
            "validated."
        ),
    )
    totalDevices: int32 | None = field(
        4,
        doc=(
            "Number of devices in all slices of the pool. Absent if the pool could not be "
            "validated."
        ),
    )
    allocatedDevices: int32 | None = field(
        5, doc="Number of devices that are allocated to claims; a shared device counts once."
    )
    availableDevices: int32 | None = field(
        6,
        doc=(
            "Number of devices that can be allocated now: the total minus allocated and "
            "unavailable ones."
        ),
    )
    unavailableDevices: int32 | None = field(
        7,
        doc=(
            "Number of devices that are neither allocated nor available, for example because of "
            "taints or used-up counters."
        ),
    )
    nodeName: str | None = field(
        3,
        doc=(
            "The node that has the devices. Absent if the devices of the pool are usable on "
            "several nodes."
        ),
    )
    validationError: str | None = field(
        10,
        doc=(
            "Why the pool could not be counted, for instance because slices are missing. At most "
            "256 bytes; absent for a valid pool."
        ),
    )
    partitionSummary: list[PartitionTypeStatus] = field(
        11,
        doc=(
            "Counts by partition type, for pools whose devices are partitions of others. At most "
            "32 items."
        ),
    )
    shareableSummary: ShareableSummaryStatus | None = field(
        13,
        doc=(
            "Counts of devices that allow multiple allocations. Absent if the pool has no such "
            "devices."
        ),
    )


class ResourcePoolStatusRequest(Kind):
    """Asks once for the state of a driver's pools; a controller fills in the status."""

    metadata: ObjectMeta = field(
        1, required=True, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ResourcePoolStatusRequestSpec = field(
        2, required=True, doc="The pools to report. It cannot be changed after creation."
    )
    status: ResourcePoolStatusRequestStatus | None = field(
        3, doc="The report. It is absent until the controller has answered, and final after that."
    )


class ResourcePoolStatusRequestSpec(Type):
    """The pools that a request asks about."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the DRA driver whose pools are reported, a DNS subdomain.",
    )
    poolName: str | None = field(
        2,
        doc=(
            "Name of the one pool to report. If it is absent, all pools of the driver are reported."
        ),
    )
    limit: int32 | None = field(
        3,
        default=100,
        doc=(
            "Largest number of pools to report, from 1 to 1000. If status.poolCount is larger, "
            "pools are missing from the report."
        ),
    )
    defaultPartitionTypeAttribute: str | None = field(
        4,
        doc=(
            "The device attribute by which partitions are counted in pools whose slices name none."
        ),
    )


class ResourcePoolStatusRequestStatus(Type):
    """The state of the pools at the time of the answer."""

    poolCount: int32 | None = field(
        6,
        required=True,
        doc=(
            "Number of pools that match the request. It exceeds the number of reported pools if "
            "the limit was reached."
        ),
    )
    pools: list[PoolStatus] = field(
        2, doc="The state of the pools, up to the limit of the request."
    )
    conditions: list[Condition] = field(
        3,
        keys=("type",),
        merge="type",
        doc=(
            "The outcome of the request, at most 10 conditions. Complete is true once the report "
            "is final, Failed is true if there is none."
        ),
    )


class ShareableCapacityStatus(Type):
    """Total, consumed and available amount of one capacity of the shared devices."""

    name: str = field(1, required=True, doc="Name of the capacity, as the devices declare it.")
    total: Quantity | None = field(
        2, required=True, doc="Sum of the capacity over all shared devices of the pool."
    )
    consumed: Quantity | None = field(
        3, required=True, doc="Sum of the amounts that allocations consume of the capacity."
    )
    available: Quantity | None = field(
        4, required=True, doc="The amount of the capacity that is left: total minus consumed."
    )


class ShareableSummaryStatus(Type):
    """Usage of the shared devices of a pool."""

    fullyAvailableDevices: int32 | None = field(
        1, required=True, doc="Number of shared devices without any allocation."
    )
    partiallyAvailableDevices: int32 | None = field(
        2, required=True, doc="Number of shared devices with allocations and some capacity left."
    )
    capacity: list[ShareableCapacityStatus] = field(
        3, doc="Totals of each capacity over the shared devices, at most 32 items."
    )
