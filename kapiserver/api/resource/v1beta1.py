"""resource.k8s.io/v1beta1: devices: what there is, what is claimed and who got it."""

from __future__ import annotations

from kapiserver.api.core.v1 import NodeSelector
from kapiserver.api.leaves import Quantity, RawExtension, Time
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int64


class AllocatedDeviceStatus(Type):
    """What a driver says of a device in use."""

    driver: str = field(1, always=True, required=True)
    pool: str = field(2, always=True, required=True)
    device: str = field(3, always=True, required=True)
    shareID: str | None = field(7)
    conditions: list[Condition] = field(4, always=True, keys=("type",))
    data: RawExtension | None = field(5)
    networkData: NetworkDeviceData | None = field(6)


class AllocationResult(Type):
    """What a claim got, and where it can be used."""

    devices: DeviceAllocationResult = field(1)
    nodeSelector: NodeSelector | None = field(3)
    allocationTimestamp: Time | None = field(5)


class BasicDevice(Type):
    """What a device is and has."""

    attributes: dict[str, DeviceAttribute] = field(1)
    capacity: dict[str, DeviceCapacity] = field(2)
    consumesCounters: list[DeviceCounterConsumption] = field(3)
    nodeName: str | None = field(4)
    nodeSelector: NodeSelector | None = field(5)
    allNodes: bool | None = field(6)
    taints: list[DeviceTaint] = field(7)
    bindsToNode: bool | None = field(8)
    bindingConditions: list[str] = field(9)
    bindingFailureConditions: list[str] = field(10)
    allowMultipleAllocations: bool | None = field(11)
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = field(14)


class CELDeviceSelector(Type):
    """A device selected by an expression."""

    expression: str = field(1, always=True, required=True, doc="True for a device that fits.")


class CapacityRequestPolicy(Type):
    """How much of a capacity may be asked for."""

    default: Quantity | None = field(1, always=True)
    validValues: list[Quantity] = field(3)
    validRange: CapacityRequestPolicyRange | None = field(4)


class CapacityRequestPolicyRange(Type):
    """Bounds and steps of what may be asked for."""

    min: Quantity | None = field(1, required=True)
    max: Quantity | None = field(2)
    step: Quantity | None = field(3)


class CapacityRequirements(Type):
    """How much of each capacity is needed."""

    requests: dict[str, Quantity] = field(1)


class Counter(Type):
    """A quantity that devices share."""

    value: Quantity = field(1, required=True)


class CounterSet(Type):
    """Quantities that devices share."""

    name: str = field(1, always=True, required=True)
    counters: dict[str, Counter] = field(2, required=True)


class Device(Type):
    """One device of a pool."""

    name: str = field(1, always=True, required=True, doc="Unique in the pool.")
    basic: BasicDevice | None = field(2)


class DeviceAllocationConfiguration(Type):
    """Settings for devices that were given out."""

    source: str = field(1, always=True, required=True, enum=("FromClass", "FromClaim"))
    requests: list[str] = field(2)
    deviceConfiguration: DeviceConfiguration = field(3, inline=True)


class DeviceAllocationResult(Type):
    """The devices given out, and their settings."""

    results: list[DeviceRequestAllocationResult] = field(1)
    config: list[DeviceAllocationConfiguration] = field(2)


class DeviceAttribute(Type):
    """One attribute of a device; one of the fields is set."""

    int_: int64 | None = field(2)
    bool_: bool | None = field(3)
    string: str | None = field(4)
    version: str | None = field(5)
    ints: list[int64] = field(6)
    bools: list[bool] = field(7)
    strings: list[str] = field(8)
    versions: list[str] = field(9)


class DeviceCapacity(Type):
    """How much of something a device has."""

    value: Quantity = field(1, required=True)
    requestPolicy: CapacityRequestPolicy | None = field(2)


class DeviceClaim(Type):
    """Which devices are asked for."""

    requests: list[DeviceRequest] = field(1, always=True)
    constraints: list[DeviceConstraint] = field(2)
    config: list[DeviceClaimConfiguration] = field(3)


class DeviceClaimConfiguration(Type):
    """Settings that a claim makes for its devices."""

    requests: list[str] = field(1)
    deviceConfiguration: DeviceConfiguration = field(2, inline=True)


class DeviceClass(Kind):
    """Devices of one sort, with settings of their own."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DeviceClassSpec = field(2, doc="The desired state.")


class DeviceClassConfiguration(Type):
    """Settings that a class makes for its devices."""

    deviceConfiguration: DeviceConfiguration = field(1, inline=True)


class DeviceClassSpec(Type):
    """Which devices are of the class."""

    selectors: list[DeviceSelector] = field(1, doc="All must fit a device of the class.")
    config: list[DeviceClassConfiguration] = field(2, doc="Settings for its devices.")
    extendedResourceName: str | None = field(4)


class DeviceConfiguration(Type):
    """Settings of a device."""

    opaque: OpaqueDeviceConfiguration | None = field(1)


class DeviceConstraint(Type):
    """What the devices of a claim must have in common, or not."""

    requests: list[str] = field(1)
    matchAttribute: str | None = field(2)
    distinctAttribute: str | None = field(3)


class DeviceCounterConsumption(Type):
    """What a device takes of shared quantities."""

    counterSet: str = field(1, always=True, required=True)
    counters: dict[str, Counter] = field(2, required=True)


class DeviceRequest(Type):
    """One device, or some, that a claim asks for."""

    name: str = field(1, always=True, required=True, doc="What others call the request.")
    deviceClassName: str = field(2, always=True)
    selectors: list[DeviceSelector] = field(3)
    allocationMode: str = field(4, enum=("ExactCount", "All"))
    count: int64 = field(5)
    adminAccess: bool | None = field(6)
    firstAvailable: list[DeviceSubRequest] = field(7)
    tolerations: list[DeviceToleration] = field(8)
    capacity: CapacityRequirements | None = field(9)


class DeviceRequestAllocationResult(Type):
    """The device that a request got."""

    request: str = field(1, always=True, required=True)
    driver: str = field(2, always=True, required=True)
    pool: str = field(3, always=True, required=True)
    device: str = field(4, always=True, required=True)
    adminAccess: bool | None = field(5)
    tolerations: list[DeviceToleration] = field(6)
    bindingConditions: list[str] = field(7)
    bindingFailureConditions: list[str] = field(8)
    shareID: str | None = field(9)
    consumedCapacity: dict[str, Quantity] = field(10)
    skipNodeOperations: list[str] = field(
        11, enum=("NodePrepareResources", "NodeUnprepareResources", "*"), set=True
    )


class DeviceSelector(Type):
    """Which devices fit."""

    cel: CELDeviceSelector | None = field(1)


class DeviceSubRequest(Type):
    """One of several ways to satisfy a request."""

    name: str = field(1, always=True, required=True)
    deviceClassName: str = field(2, always=True, required=True)
    selectors: list[DeviceSelector] = field(3)
    allocationMode: str = field(4, enum=("ExactCount", "All"))
    count: int64 = field(5)
    tolerations: list[DeviceToleration] = field(7)
    capacity: CapacityRequirements | None = field(8)


class DeviceTaint(Type):
    """A mark that keeps claims off a device."""

    key: str = field(1, always=True, required=True)
    value: str = field(2)
    effect: str = field(3, always=True, required=True, enum=("None", "NoSchedule", "NoExecute"))
    timeAdded: Time | None = field(4)


class DeviceToleration(Type):
    """A taint that does not matter to a request."""

    key: str = field(1)
    operator: str = field(2, default="Equal", enum=("Exists", "Equal"))
    value: str = field(3)
    effect: str = field(4, enum=("None", "NoSchedule", "NoExecute"))
    tolerationSeconds: int64 | None = field(5)


class NetworkDeviceData(Type):
    """What is known of a device of the network."""

    interfaceName: str = field(1)
    ips: list[str] = field(2)
    hardwareAddress: str = field(3)


class NodeAllocatableMapping(Type):
    """How devices count against what a node has."""

    capacityKey: str | None = field(1)
    capacityMultiplier: Quantity | None = field(2)
    deviceMultiplier: Quantity | None = field(3)


class NodeAllocatableOverhead(Type):
    """What a device costs a node on top, by pod and container."""

    perPod: Quantity | None = field(1)
    perContainer: Quantity | None = field(2)


class NodeAllocatableResource(Type):
    """What a device takes of a node's own resources."""

    mapping: NodeAllocatableMapping | None = field(3)
    overhead: NodeAllocatableOverhead | None = field(4)


class OpaqueDeviceConfiguration(Type):
    """Settings that only the driver understands."""

    driver: str = field(1, always=True, required=True)
    parameters: RawExtension = field(2, required=True)


class ResourceClaim(Kind):
    """Asks for devices."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimSpec = field(2, doc="The desired state.")
    status: ResourceClaimStatus = field(3, doc="The observed state.")


class ResourceClaimConsumerReference(Type):
    """One who uses a claim."""

    apiGroup: str = field(1)
    resource: str = field(3, always=True, required=True)
    name: str = field(4, always=True, required=True)
    uid: str = field(5, always=True, required=True)


class ResourceClaimSpec(Type):
    """What is asked for."""

    devices: DeviceClaim = field(1, doc="The devices.")


class ResourceClaimStatus(Type):
    """What the claim got, and who uses it."""

    allocation: AllocationResult | None = field(1, doc="What it got.")
    reservedFor: list[ResourceClaimConsumerReference] = field(
        2, keys=("uid",), merge="uid", doc="Who uses it."
    )
    devices: list[AllocatedDeviceStatus] = field(4, keys=("driver", "device", "pool", "shareID"))


class ResourceClaimTemplate(Kind):
    """What the claims of pods look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimTemplateSpec = field(2, doc="The desired state.")


class ResourceClaimTemplateSpec(Type):
    """The metadata and wishes of the claims."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimSpec = field(2)


class ResourcePool(Type):
    """The pool to which a slice belongs."""

    name: str = field(1, always=True, required=True)
    generation: int64 = field(2, always=True, required=True)
    resourceSliceCount: int64 = field(3, always=True, required=True)


class ResourceSlice(Kind):
    """Some of the devices that a driver offers."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceSliceSpec = field(2, required=True, doc="The desired state.")


class ResourceSliceSpec(Type):
    """Which driver, pool, node and devices."""

    driver: str = field(1, always=True, required=True, doc="Whose devices these are.")
    pool: ResourcePool = field(2, required=True, doc="The pool they are in.")
    nodeName: str = field(3, doc="The node that has them.")
    nodeSelector: NodeSelector | None = field(4)
    allNodes: bool = field(5)
    devices: list[Device] = field(6, doc="The devices.")
    perDeviceNodeSelection: bool | None = field(7)
    sharedCounters: list[CounterSet] = field(8)
    partitionTypeAttribute: str | None = field(9)
    skipNodeOperations: list[str] = field(
        10, enum=("NodePrepareResources", "NodeUnprepareResources", "*"), set=True
    )
