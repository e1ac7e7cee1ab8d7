"""resource.k8s.io/v1: devices: what there is, what is claimed and who got it."""

from __future__ import annotations

from kapiserver.api.core.v1 import NodeSelector
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import Quantity, RawExtension, Time
from kapiserver.api.types import Kind, Type, field, int64


class AllocatedDeviceStatus(Type):
    """What a driver says of a device in use."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    pool: str = field(2, always=True, required=True, doc="The pool that it belongs to.")
    device: str = field(3, always=True, required=True, doc="The device, by name.")
    shareID: str | None = field(7, doc="Which share of the device.")
    conditions: list[Condition] = field(
        4, always=True, keys=("type",), doc="What was found out about it."
    )
    data: RawExtension | None = field(5, doc="The data.")
    networkData: NetworkDeviceData | None = field(6, doc="How it is reached over the network.")


class AllocationResult(Type):
    """What a claim got, and where it can be used."""

    devices: DeviceAllocationResult = field(1, doc="The devices.")
    nodeSelector: NodeSelector | None = field(3, doc="Nodes that reach the devices.")
    allocationTimestamp: Time | None = field(5, doc="When they were chosen.")


class CELDeviceSelector(Type):
    """A device selected by an expression."""

    expression: str = field(1, always=True, required=True, doc="True for a device that fits.")


class CapacityRequestPolicy(Type):
    """How much of a capacity may be asked for."""

    default: Quantity | None = field(1, always=True, doc="What is taken where nothing is said.")
    validValues: list[Quantity] = field(3, doc="The amounts there are.")
    validRange: CapacityRequestPolicyRange | None = field(4, doc="From what to what.")


class CapacityRequestPolicyRange(Type):
    """Bounds and steps of what may be asked for."""

    min: Quantity | None = field(1, required=True, doc="The smallest that may be.")
    max: Quantity | None = field(2, doc="The largest that may be.")
    step: Quantity | None = field(3, doc="In steps of.")


class CapacityRequirements(Type):
    """How much of each capacity is needed."""

    requests: dict[str, Quantity] = field(1, doc="How much is asked for.")


class Counter(Type):
    """A quantity that devices share."""

    value: Quantity = field(1, required=True, doc="Its value.")


class CounterSet(Type):
    """Quantities that devices share."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    counters: dict[str, Counter] = field(2, required=True, doc="The counters, by name.")


class Device(Type):
    """One device of a pool."""

    name: str = field(1, always=True, required=True, doc="Unique in the pool.")
    attributes: dict[str, DeviceAttribute] = field(2, doc="What it is.")
    capacity: dict[str, DeviceCapacity] = field(3, doc="What it has.")
    consumesCounters: list[DeviceCounterConsumption] = field(
        4, doc="What it takes of shared counters."
    )
    nodeName: str | None = field(5, doc="The node, by name.")
    nodeSelector: NodeSelector | None = field(6, doc="Labels that the node must have.")
    allNodes: bool | None = field(7, doc="Whether every node can reach it.")
    taints: list[DeviceTaint] = field(8, doc="What keeps away those who do not tolerate it.")
    bindsToNode: bool | None = field(9, doc="Whether its pods stay on the node.")
    bindingConditions: list[str] = field(10, doc="What must come true before pods are bound.")
    bindingFailureConditions: list[str] = field(11, doc="What ends the wait in failure.")
    allowMultipleAllocations: bool | None = field(12, doc="Whether several claims may share it.")
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = field(
        14, doc="What it takes of the node's resources."
    )


class DeviceAllocationConfiguration(Type):
    """Settings for devices that were given out."""

    source: str = field(
        1,
        always=True,
        required=True,
        enum=("FromClass", "FromClaim"),
        doc="FromClass or FromClaim.",
    )
    requests: list[str] = field(2, doc="How much is asked for.")
    deviceConfiguration: DeviceConfiguration = field(3, inline=True)


class DeviceAllocationResult(Type):
    """The devices given out, and their settings."""

    results: list[DeviceRequestAllocationResult] = field(1, doc="The devices that were chosen.")
    config: list[DeviceAllocationConfiguration] = field(2, doc="How it is set up.")


class DeviceAttribute(Type):
    """One attribute of a device; one of the fields is set."""

    int_: int64 | None = field(2, doc="A number.")
    bool_: bool | None = field(3, doc="True or false.")
    string: str | None = field(4, doc="A text.")
    version: str | None = field(5, doc="A semantic version.")
    ints: list[int64] = field(6, doc="Numbers.")
    bools: list[bool] = field(7, doc="Truth values.")
    strings: list[str] = field(8, doc="Texts.")
    versions: list[str] = field(9, doc="Semantic versions.")


class DeviceCapacity(Type):
    """How much of something a device has."""

    value: Quantity = field(1, required=True, doc="How much there is.")
    requestPolicy: CapacityRequestPolicy | None = field(2, doc="How much can be asked for.")


class DeviceClaim(Type):
    """Which devices are asked for."""

    requests: list[DeviceRequest] = field(1, always=True, doc="How much is asked for.")
    constraints: list[DeviceConstraint] = field(2, doc="What chosen devices have in common.")
    config: list[DeviceClaimConfiguration] = field(3, doc="How it is set up.")


class DeviceClaimConfiguration(Type):
    """Settings that a claim makes for its devices."""

    requests: list[str] = field(1, doc="How much is asked for.")
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
    extendedResourceName: str | None = field(
        4, doc="The resource that pods ask for instead of a claim."
    )


class DeviceConfiguration(Type):
    """Settings of a device."""

    opaque: OpaqueDeviceConfiguration | None = field(
        1, doc="Settings that only the driver understands."
    )


class DeviceConstraint(Type):
    """What the devices of a claim must have in common, or not."""

    requests: list[str] = field(1, doc="How much is asked for.")
    matchAttribute: str | None = field(2, doc="An attribute that all share.")
    distinctAttribute: str | None = field(3, doc="An attribute that no two share.")


class DeviceCounterConsumption(Type):
    """What a device takes of shared quantities."""

    counterSet: str = field(1, always=True, required=True, doc="The set of counters, by name.")
    counters: dict[str, Counter] = field(2, required=True, doc="The counters, by name.")
    compatibilityGroups: list[str] = field(
        3, doc="Who may take of the set at the same time: those with a group in common."
    )


class DeviceDerivedAttribute(Type):
    """An attribute that is computed of a device, for constraints."""

    name: str = field(1, always=True, required=True, doc="What constraints call it.")
    expression: str = field(2, always=True, required=True, doc="Its value, in CEL.")


class DeviceRequest(Type):
    """One device, or some, that a claim asks for."""

    name: str = field(1, always=True, required=True, doc="What others call the request.")
    exactly: ExactDeviceRequest | None = field(2, doc="Devices of one sort.")
    firstAvailable: list[DeviceSubRequest] = field(
        3, doc="Sorts of devices, the first that there is is taken."
    )


class DeviceRequestAllocationResult(Type):
    """The device that a request got."""

    request: str = field(1, always=True, required=True, doc="Which request.")
    driver: str = field(2, always=True, required=True, doc="The driver that it belongs to.")
    pool: str = field(3, always=True, required=True, doc="The pool that it belongs to.")
    device: str = field(4, always=True, required=True, doc="The device, by name.")
    adminAccess: bool | None = field(5, doc="Whether it is for monitoring, beside other users.")
    tolerations: list[DeviceToleration] = field(6, doc="Taints that are put up with.")
    bindingConditions: list[str] = field(7, doc="What must come true before pods are bound.")
    bindingFailureConditions: list[str] = field(8, doc="What ends the wait in failure.")
    shareID: str | None = field(9, doc="Which share of the device.")
    consumedCapacity: dict[str, Quantity] = field(10, doc="How much of the device.")
    skipNodeOperations: list[str] = field(
        11,
        enum=("NodePrepareResources", "NodeUnprepareResources", "*"),
        set=True,
        doc="Steps that nodes leave out.",
    )


class DeviceSelector(Type):
    """Which devices fit."""

    cel: CELDeviceSelector | None = field(1, doc="A CEL expression about a device.")


class DeviceSubRequest(Type):
    """One of several ways to satisfy a request."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    deviceClassName: str = field(2, always=True, required=True, doc="The class of the devices.")
    selectors: list[DeviceSelector] = field(3, doc="What a device must be, all of it.")
    allocationMode: str = field(4, enum=("ExactCount", "All"), doc="ExactCount or All.")
    count: int64 = field(5, doc="How many.")
    tolerations: list[DeviceToleration] = field(6, doc="Taints that are put up with.")
    capacity: CapacityRequirements | None = field(7, doc="How much there is.")
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        8, doc="Attributes that are computed of each device, for constraints."
    )


class DeviceTaint(Type):
    """A mark that keeps claims off a device."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    value: str = field(2, doc="Its value.")
    effect: str = field(
        3,
        always=True,
        required=True,
        enum=("None", "NoSchedule", "NoExecute"),
        doc="NoSchedule, PreferNoSchedule or NoExecute.",
    )
    timeAdded: Time | None = field(4, doc="When it was put on.")


class DeviceTaintRule(Kind):
    """Puts a taint on devices."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DeviceTaintRuleSpec = field(2, required=True, doc="The desired state.")
    status: DeviceTaintRuleStatus = field(3, doc="The observed state.")


class DeviceTaintRuleSpec(Type):
    """Which devices, which taint."""

    deviceSelector: DeviceTaintSelector | None = field(1, doc="Which devices.")
    taint: DeviceTaint = field(2, required=True, doc="The taint.")


class DeviceTaintRuleStatus(Type):
    """What is known of a rule."""

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )


class DeviceTaintSelector(Type):
    """Devices by driver, pool and name."""

    driver: str | None = field(2, doc="The driver that it belongs to.")
    pool: str | None = field(3, doc="The pool that it belongs to.")
    device: str | None = field(4, doc="The device, by name.")


class DeviceToleration(Type):
    """A taint that does not matter to a request."""

    key: str = field(1, doc="Its key.")
    operator: str = field(
        2, default="Equal", enum=("Exists", "Equal"), doc="How key and values relate."
    )
    value: str = field(3, doc="Its value.")
    effect: str = field(
        4,
        enum=("None", "NoSchedule", "NoExecute"),
        doc="NoSchedule, PreferNoSchedule or NoExecute.",
    )
    tolerationSeconds: int64 | None = field(5, doc="How long it is put up with; empty: for ever.")


class ExactDeviceRequest(Type):
    """Devices of one sort, all that are needed."""

    deviceClassName: str = field(1, always=True, required=True, doc="The class of the devices.")
    selectors: list[DeviceSelector] = field(2, doc="What a device must be, all of it.")
    allocationMode: str = field(3, enum=("ExactCount", "All"), doc="ExactCount or All.")
    count: int64 = field(4, doc="How many.")
    adminAccess: bool | None = field(5, doc="Whether it is for monitoring, beside other users.")
    tolerations: list[DeviceToleration] = field(6, doc="Taints that are put up with.")
    capacity: CapacityRequirements | None = field(7, doc="How much of each device.")
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        8, doc="Attributes that are computed of each device, for constraints."
    )


class NetworkDeviceData(Type):
    """What is known of a device of the network."""

    interfaceName: str = field(1, doc="The network interface.")
    ips: list[str] = field(2, doc="Its addresses.")
    hardwareAddress: str = field(3, doc="Its MAC address.")


class NodeAllocatableMapping(Type):
    """How devices count against what a node has."""

    capacityKey: str | None = field(1, doc="The capacity that counts.")
    capacityMultiplier: Quantity | None = field(2, doc="How much one of it is.")
    deviceMultiplier: Quantity | None = field(3, doc="How much one device is.")


class NodeAllocatableOverhead(Type):
    """What a device costs a node on top, by pod and container."""

    perPod: Quantity | None = field(1, doc="For each pod.")
    perContainer: Quantity | None = field(2, doc="For each container.")


class NodeAllocatableResource(Type):
    """What a device takes of a node's own resources."""

    mapping: NodeAllocatableMapping | None = field(3, doc="How devices map to what nodes count.")
    overhead: NodeAllocatableOverhead | None = field(
        4, doc="What running it costs beside its containers."
    )


class OpaqueDeviceConfiguration(Type):
    """Settings that only the driver understands."""

    driver: str = field(1, always=True, required=True, doc="The driver that it belongs to.")
    parameters: RawExtension = field(2, required=True, doc="What the driver is told.")


class ResourceClaim(Kind):
    """Asks for devices."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimSpec = field(2, doc="The desired state.")
    status: ResourceClaimStatus = field(3, doc="The observed state.")


class ResourceClaimConsumerReference(Type):
    """One who uses a claim."""

    apiGroup: str = field(1, doc="The group of the object; empty: core.")
    resource: str = field(3, always=True, required=True, doc="The resource of the object, as pods.")
    name: str = field(4, always=True, required=True, doc="Its name.")
    uid: str = field(5, always=True, required=True, doc="Its uid.")


class ResourceClaimSpec(Type):
    """What is asked for."""

    devices: DeviceClaim = field(1, doc="The devices.")


class ResourceClaimStatus(Type):
    """What the claim got, and who uses it."""

    allocation: AllocationResult | None = field(1, doc="What it got.")
    reservedFor: list[ResourceClaimConsumerReference] = field(
        2, keys=("uid",), merge="uid", doc="Who uses it."
    )
    devices: list[AllocatedDeviceStatus] = field(
        4, keys=("driver", "device", "pool", "shareID"), doc="The devices."
    )


class ResourceClaimTemplate(Kind):
    """What the claims of pods look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimTemplateSpec = field(2, doc="The desired state.")


class ResourceClaimTemplateSpec(Type):
    """The metadata and wishes of the claims."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceClaimSpec = field(2, doc="What is wanted.")


class ResourcePool(Type):
    """The pool to which a slice belongs."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    generation: int64 = field(2, always=True, required=True, doc="Which edition it is.")
    resourceSliceCount: int64 = field(
        3, always=True, required=True, doc="In how many slices the pool is."
    )


class ResourceSlice(Kind):
    """Some of the devices that a driver offers."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ResourceSliceSpec = field(2, required=True, doc="The desired state.")


class ResourceSliceSpec(Type):
    """Which driver, pool, node and devices."""

    driver: str = field(1, always=True, required=True, doc="Whose devices these are.")
    pool: ResourcePool = field(2, required=True, doc="The pool they are in.")
    nodeName: str | None = field(3, doc="The node that has them.")
    nodeSelector: NodeSelector | None = field(4, doc="Labels that the node must have.")
    allNodes: bool | None = field(5, doc="Whether every node can reach it.")
    devices: list[Device] = field(6, doc="The devices.")
    perDeviceNodeSelection: bool | None = field(
        7, doc="Whether each device says for which nodes it is."
    )
    sharedCounters: list[CounterSet] = field(8, doc="What devices have a share in.")
    partitionTypeAttribute: str | None = field(
        9, doc="The attribute that tells sorts of parts apart."
    )
    skipNodeOperations: list[str] = field(
        10,
        enum=("NodePrepareResources", "NodeUnprepareResources", "*"),
        set=True,
        doc="Steps that nodes leave out.",
    )
