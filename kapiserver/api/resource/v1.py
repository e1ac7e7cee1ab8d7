"""resource.k8s.io/v1: devices in slices, claims for devices, device classes and taint rules."""

from __future__ import annotations

from kapiserver.api.core.v1 import NodeSelector
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import Quantity, RawExtension, Time
from kapiserver.api.types import Kind, Type, field, int64


class AllocatedDeviceStatus(Type):
    """The state of one allocated device, as its driver reports it."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the DRA driver of the device, a DNS subdomain. Driver, pool, device and "
            "shareID must name a device that is allocated to this claim."
        ),
    )
    pool: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the pool that holds the device; segments are separated by slashes.",
    )
    device: str = field(
        3, always=True, required=True, doc="Name of the device within its pool, a DNS label."
    )
    shareID: str | None = field(
        7,
        doc=(
            "UUID of the share, for a device that several claims may use. It must equal the "
            "shareID in the allocation result."
        ),
    )
    conditions: list[Condition] = field(
        4,
        always=True,
        keys=("type",),
        doc=(
            "Conditions of the device as the driver reports them, at most 8. Ready tells whether "
            "the device is prepared."
        ),
    )
    data: RawExtension | None = field(
        5, doc="Any JSON object with driver-specific details about the device, at most 10 KiB."
    )
    networkData: NetworkDeviceData | None = field(
        6, doc="Interface name and addresses of the device, if it is a network device."
    )


class AllocationResult(Type):
    """The devices that the scheduler allocated to a claim, and the nodes that reach them."""

    devices: DeviceAllocationResult = field(
        1,
        doc=(
            "The allocated devices and the configuration for them. The list may be empty if the "
            "claim requested no devices."
        ),
    )
    nodeSelector: NodeSelector | None = field(
        3,
        doc=(
            "The nodes on which the allocated devices are usable; pods with the claim must run "
            "there. If it is absent, every node can use them."
        ),
    )
    allocationTimestamp: Time | None = field(
        5,
        doc="When the devices were allocated. If it is absent, the time is not known.",
    )


class CELDeviceSelector(Type):
    """A CEL expression that decides whether a device matches."""

    expression: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "A CEL expression over the variable `device` that is true for devices that match, "
            'such as device.attributes["gpu.example.com"].model == "a100". At most 10 KiB.'
        ),
    )


class CapacityRequestPolicy(Type):
    """The amounts of a capacity that one request may consume of a shared device."""

    default: Quantity | None = field(
        1,
        always=True,
        doc=(
            "The amount that a request consumes if it names none. Required with validValues or "
            "validRange, and must be an allowed amount."
        ),
    )
    validValues: list[Quantity] = field(
        3,
        doc=(
            "The allowed amounts in ascending order, at most 10. A request is rounded up to the "
            "next of them. Excludes validRange."
        ),
    )
    validRange: CapacityRequestPolicyRange | None = field(
        4,
        doc=(
            "The range of allowed amounts. A request is rounded up to the next step. Excludes "
            "validValues."
        ),
    )


class CapacityRequestPolicyRange(Type):
    """The smallest and largest amount that a request may consume, and the step between."""

    min: Quantity | None = field(
        1,
        required=True,
        doc="The smallest amount that a request consumes; smaller requests are rounded up to it.",
    )
    max: Quantity | None = field(
        2,
        doc=(
            "The largest amount that a request may consume. If it is absent, the capacity of the "
            "device is the limit."
        ),
    )
    step: Quantity | None = field(
        3,
        doc=(
            "The distance between allowed amounts, counted from min; greater than zero. If it is "
            "absent, any amount in the range is allowed."
        ),
    )


class CapacityRequirements(Type):
    """The capacity that a request needs of each device."""

    requests: dict[str, Quantity] = field(
        1,
        doc=(
            "The amount needed by capacity name, such as memory: 10Gi. A device without the "
            "capacity, or with less of it, does not match. On a shared device, this much is "
            "consumed."
        ),
    )


class Counter(Type):
    """A quantity that several devices of a pool draw from."""

    value: Quantity = field(
        1,
        required=True,
        doc=(
            "In a counter set, the total available. In a device's consumesCounters, how much of "
            "it the device consumes."
        ),
    )


class CounterSet(Type):
    """A named set of counters from which the devices of a pool draw."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the set, a DNS label that is unique in the pool. Devices refer to it in "
            "consumesCounters."
        ),
    )
    counters: dict[str, Counter] = field(
        2, required=True, doc="The counters by name, at most 32. Names are DNS labels."
    )


class Device(Type):
    """One device that a driver offers, with its attributes and capacity."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the device, a DNS label that is unique in its pool.",
    )
    attributes: dict[str, DeviceAttribute] = field(
        2,
        doc=(
            "Facts by which selectors and constraints choose the device. Names without a domain "
            "belong to the driver's domain. At most 32 attributes and capacities together."
        ),
    )
    capacity: dict[str, DeviceCapacity] = field(
        3,
        doc=(
            "Quantities that the device has, by name, such as memory: 80Gi. At most 32 attributes "
            "and capacities together."
        ),
    )
    consumesCounters: list[DeviceCounterConsumption] = field(
        4,
        doc=(
            "Amounts that the device draws from shared counter sets, at most 2 sets. The device "
            "can be allocated only while each counter has enough left."
        ),
    )
    nodeName: str | None = field(
        5,
        doc=(
            "The node that can use the device. Requires spec.perDeviceNodeSelection; excludes "
            "nodeSelector and allNodes."
        ),
    )
    nodeSelector: NodeSelector | None = field(
        6,
        doc=(
            "The nodes that can use the device. Requires spec.perDeviceNodeSelection; excludes "
            "nodeName and allNodes."
        ),
    )
    allNodes: bool | None = field(
        7,
        doc=(
            "True if every node can use the device; false is not allowed. Requires "
            "spec.perDeviceNodeSelection; excludes nodeName and nodeSelector."
        ),
    )
    taints: list[DeviceTaint] = field(
        8,
        doc=(
            "Taints that the driver sets, at most 16. Requests without a matching toleration do "
            "not get the device."
        ),
    )
    bindsToNode: bool | None = field(
        9,
        doc=(
            "If true, an allocation of the device limits its claim to the node that the scheduler "
            "chose. Defaults to false."
        ),
    )
    bindingConditions: list[str] = field(
        10,
        doc=(
            "Condition types that must all be true in the claim's device status before the "
            "scheduler binds the pod, at most 4. Requires bindingFailureConditions."
        ),
    )
    bindingFailureConditions: list[str] = field(
        11,
        doc=(
            "Condition types of which any true one makes the scheduler give up the allocation, at "
            "most 4. Requires bindingConditions and may not repeat them."
        ),
    )
    allowMultipleAllocations: bool | None = field(
        12,
        doc=(
            "If true, several requests may be allocated to the device at once, each consuming "
            "part of its capacity. Defaults to false."
        ),
    )
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = field(
        14,
        doc=(
            "Resources of the node that the device takes up, by resource name such as memory. The "
            "scheduler subtracts them from the allocatable resources of the node."
        ),
    )


class DeviceAllocationConfiguration(Type):
    """Configuration for allocated devices, and its source."""

    source: str = field(
        1,
        always=True,
        required=True,
        enum=("FromClass", "FromClaim"),
        doc=(
            "FromClass if the configuration was copied from the device class, FromClaim if it was "
            "copied from the claim."
        ),
    )
    requests: list[str] = field(
        2,
        doc=(
            "The requests to which the configuration applies; `request/subrequest` names an "
            "alternative. If it is empty, the configuration applies to all."
        ),
    )
    deviceConfiguration: DeviceConfiguration = field(3, inline=True)


class DeviceAllocationResult(Type):
    """The devices that were allocated, and the configuration for them."""

    results: list[DeviceRequestAllocationResult] = field(
        1, doc="The allocated devices, one item for each device of each request. At most 32."
    )
    config: list[DeviceAllocationConfiguration] = field(
        2,
        doc=(
            "Configuration for the drivers, from classes and then from the claim; later items "
            "override earlier ones. At most 64."
        ),
    )


class DeviceAttribute(Type):
    """The value of one attribute; exactly one field is set."""

    int_: int64 | None = field(2, doc="An integer of 64 bits.")
    bool_: bool | None = field(3, doc="A value that is true or false.")
    string: str | None = field(4, doc="A string of at most 64 bytes.")
    version: str | None = field(
        5, doc="A semantic version (semver.org 2.0.0) of at most 64 bytes, such as 1.2.3."
    )
    ints: list[int64] = field(6, doc="A list of integers. An empty list is not allowed.")
    bools: list[bool] = field(
        7, doc="A list of values that are true or false. An empty list is not allowed."
    )
    strings: list[str] = field(
        8, doc="A list of strings of at most 64 bytes each. An empty list is not allowed."
    )
    versions: list[str] = field(
        9,
        doc="A list of semantic versions of at most 64 bytes each. An empty list is not allowed.",
    )


class DeviceCapacity(Type):
    """A quantity of a device, and how requests may share it."""

    value: Quantity = field(
        1, required=True, doc="The total amount that the device has, such as 80Gi."
    )
    requestPolicy: CapacityRequestPolicy | None = field(
        2,
        doc=(
            "The amounts that a request may consume. Requires allowMultipleAllocations. If it is "
            "absent, a request may consume any amount, by default all of it."
        ),
    )


class DeviceClaim(Type):
    """The devices that a claim requests, with constraints and configuration."""

    requests: list[DeviceRequest] = field(
        1,
        always=True,
        doc=(
            "The requests for devices, at most 32; all must be satisfied. If the list is empty, "
            "the claim gets no devices."
        ),
    )
    constraints: list[DeviceConstraint] = field(
        2, doc="Conditions that the chosen devices must satisfy together, at most 32."
    )
    config: list[DeviceClaimConfiguration] = field(
        3,
        doc=(
            "Configuration for the drivers of the allocated devices, at most 32 items. It does "
            "not affect which devices are chosen."
        ),
    )


class DeviceClaimConfiguration(Type):
    """Configuration that a claim passes to the drivers of its devices."""

    requests: list[str] = field(
        1,
        doc=(
            "The requests to which the configuration applies; `request/subrequest` names an "
            "alternative. If the list is empty, it applies to all requests."
        ),
    )
    deviceConfiguration: DeviceConfiguration = field(2, inline=True)


class DeviceClass(Kind):
    """A category of devices, set up by an administrator, that claims refer to by name."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is the deviceClassName of requests; a class has "
            "no namespace."
        ),
    )
    spec: DeviceClassSpec = field(
        2,
        doc=(
            "The devices of the class and the configuration for them. Changes do not affect "
            "claims that are already allocated."
        ),
    )


class DeviceClassConfiguration(Type):
    """Configuration that a class passes to the drivers of its devices."""

    deviceConfiguration: DeviceConfiguration = field(1, inline=True)


class DeviceClassSpec(Type):
    """Selectors and configuration of the devices in a class."""

    selectors: list[DeviceSelector] = field(
        1,
        doc="Conditions for a device to belong to the class; all must be true. At most 32.",
    )
    config: list[DeviceClassConfiguration] = field(
        2,
        doc=(
            "Configuration for the drivers, added to each claim that uses the class, at most 32 "
            "items. A driver ignores items for other drivers."
        ),
    )
    extendedResourceName: str | None = field(
        4,
        doc=(
            "An extended resource, such as example.com/gpu, by which pods request devices of the "
            "class without a claim. Not of the domain kubernetes.io; use it in one class only."
        ),
    )


class DeviceConfiguration(Type):
    """Configuration of a device; one field must be set."""

    opaque: OpaqueDeviceConfiguration | None = field(
        1, doc="Parameters for one driver, in a form that only this driver knows."
    )


class DeviceConstraint(Type):
    """A condition on all devices that satisfy some requests."""

    requests: list[str] = field(
        1,
        doc=(
            "The requests to which the constraint applies; `request/subrequest` names an "
            "alternative. If the list is empty, it applies to all devices of the claim."
        ),
    )
    matchAttribute: str | None = field(
        2,
        doc=(
            "An attribute that must have the same value for all the devices, such as "
            "dra.example.com/numa. A device without it does not match."
        ),
    )
    distinctAttribute: str | None = field(
        3,
        doc=(
            "An attribute that must have a different value for each of the devices. A device "
            "without it does not match."
        ),
    )


class DeviceCounterConsumption(Type):
    """The amounts that a device consumes of one counter set."""

    counterSet: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the counter set, declared in the sharedCounters of a slice in the same pool."
        ),
    )
    counters: dict[str, Counter] = field(
        2, required=True, doc="The consumed amounts by counter name, at most 32."
    )
    compatibilityGroups: list[str] = field(
        3,
        doc=(
            "Groups that the device belongs to. Devices that draw from the same set at the same "
            "time must have a group in common. If the list is empty, any may."
        ),
    )


class DeviceDerivedAttribute(Type):
    """An attribute that is computed from each candidate device."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Fully qualified name of the attribute, a domain and an identifier. Constraints refer "
            "to it in matchAttribute or distinctAttribute."
        ),
    )
    expression: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "A CEL expression over the variable `device` whose result is the value of the "
            "attribute."
        ),
    )


class DeviceRequest(Type):
    """A request for one or more devices; exactly or firstAvailable must be set."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the request, a DNS label. Pods, constraints and configuration refer to it.",
    )
    exactly: ExactDeviceRequest | None = field(
        2, doc="The devices that satisfy the request. Excludes firstAvailable."
    )
    firstAvailable: list[DeviceSubRequest] = field(
        3,
        doc=(
            "Alternatives in order of preference, at most 8; the scheduler takes the first that "
            "it can satisfy. Excludes exactly."
        ),
    )


class DeviceRequestAllocationResult(Type):
    """One device that was allocated to a request."""

    request: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the request, or request/subrequest if the device satisfies one of its "
            "alternatives."
        ),
    )
    driver: str = field(
        2,
        always=True,
        required=True,
        doc="Name of the DRA driver that prepares the device on the node, a DNS subdomain.",
    )
    pool: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "Name of the pool that has the device; with the driver's name, it identifies the pool."
        ),
    )
    device: str = field(
        4,
        always=True,
        required=True,
        doc=(
            "Name of the device within its pool. A device without shareID is in no other "
            "allocation, unless adminAccess is true."
        ),
    )
    adminAccess: bool | None = field(
        5,
        doc=(
            "True if the device was allocated for administrative access, which does not keep "
            "others from using it."
        ),
    )
    tolerations: list[DeviceToleration] = field(
        6, doc="A copy of the tolerations of the request at the time of allocation."
    )
    bindingConditions: list[str] = field(
        7,
        doc=(
            "Condition types copied from the device. The pod is bound once all are true in the "
            "device's status."
        ),
    )
    bindingFailureConditions: list[str] = field(
        8,
        doc=(
            "Condition types copied from the device. If one of them is true, the devices are "
            "deallocated and the pod is scheduled again."
        ),
    )
    shareID: str | None = field(
        9,
        doc=(
            "UUID of this share of the device. It is set if the device allows multiple "
            "allocations, and tells the shares apart."
        ),
    )
    consumedCapacity: dict[str, Quantity] = field(
        10,
        doc=(
            "The amounts of the device's capacities that this allocation consumes, rounded as the "
            "request policies demand."
        ),
    )
    skipNodeOperations: list[str] = field(
        11,
        enum=("NodePrepareResources", "NodeUnprepareResources", "*"),
        set=True,
        doc=(
            'Calls to the driver that the kubelet leaves out for this device; "*" leaves out all. '
            "Copied from the slice."
        ),
    )


class DeviceSelector(Type):
    """One condition that a device must satisfy."""

    cel: CELDeviceSelector | None = field(
        1,
        doc=(
            "A CEL expression that must be true for the device. Required, as there is no other "
            "way to select."
        ),
    )


class DeviceSubRequest(Type):
    """One of several alternatives that satisfy a request."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the alternative, a DNS label. Other fields refer to it as request/subrequest."
        ),
    )
    deviceClassName: str = field(
        2,
        always=True,
        required=True,
        doc="The device class whose selectors and configuration apply to this alternative.",
    )
    selectors: list[DeviceSelector] = field(
        3,
        doc=(
            "Further conditions that a device must satisfy besides those of its class; all must "
            "be true. At most 32."
        ),
    )
    allocationMode: str = field(
        4,
        enum=("ExactCount", "All"),
        doc=(
            "ExactCount (the default) allocates count devices. All allocates every matching "
            "device of the pool, and fails if one of them is in use."
        ),
    )
    count: int64 = field(
        5,
        doc=(
            "Number of devices to allocate in the mode ExactCount; 1 by default. It must be unset "
            "in the mode All."
        ),
    )
    tolerations: list[DeviceToleration] = field(
        6, doc="Taints of devices that this alternative accepts."
    )
    capacity: CapacityRequirements | None = field(
        7,
        doc=(
            "The least capacity that each device must have. If it is absent, capacity does not "
            "matter."
        ),
    )
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        8,
        doc=(
            "Attributes that are computed from each candidate device, for use in the constraints "
            "of the claim."
        ),
    )


class DeviceTaint(Type):
    """A taint that keeps a device from claims without a matching toleration."""

    key: str = field(
        1,
        always=True,
        required=True,
        doc="Key of the taint, in the form of a label key, such as example.com/unhealthy.",
    )
    value: str = field(
        2, doc="Value that belongs to the key, in the form of a label value. May be empty."
    )
    effect: str = field(
        3,
        always=True,
        required=True,
        enum=("None", "NoSchedule", "NoExecute"),
        doc=(
            "NoSchedule keeps new pods off the device, NoExecute also evicts pods that use it, "
            "None has no effect but to inform."
        ),
    )
    timeAdded: Time | None = field(
        4,
        doc=(
            "Time at which the taint was added. The server sets it if it is absent; a rule's "
            "taint gets a new time when its effect changes."
        ),
    )


class DeviceTaintRule(Kind):
    """Adds a taint to all devices that match a selector."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: DeviceTaintRuleSpec = field(
        2, required=True, doc="The taint, and the devices to which it is added."
    )
    status: DeviceTaintRuleStatus = field(
        3, doc="The progress of evicting pods, for a taint with the effect NoExecute."
    )


class DeviceTaintRuleSpec(Type):
    """The taint of a rule and the devices that get it."""

    deviceSelector: DeviceTaintSelector | None = field(
        1,
        doc=(
            "The devices that get the taint; all fields that are set must match. An empty "
            "selector matches all devices, an absent one matches none."
        ),
    )
    taint: DeviceTaint = field(2, required=True, doc="The taint to add to each matching device.")


class DeviceTaintRuleStatus(Type):
    """The progress of a taint rule."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the rule, at most 8. EvictionInProgress is true while pods that use a "
            "tainted device are still to be evicted."
        ),
    )


class DeviceTaintSelector(Type):
    """Selects devices by driver, pool and name; all fields that are set must match."""

    driver: str | None = field(
        2,
        doc=(
            "Name of the driver whose devices match. If it is absent, devices of all drivers match."
        ),
    )
    pool: str | None = field(
        3,
        doc="Name of the pool whose devices match. If it is absent, devices of all pools match.",
    )
    device: str | None = field(
        4,
        doc=(
            "Name of the device that matches. If it is absent, all devices match; set driver and "
            "pool for one device."
        ),
    )


class DeviceToleration(Type):
    """A taint that a request accepts on its devices."""

    key: str = field(
        1,
        doc=(
            "Key of the tolerated taint. If it is empty, the operator must be Exists, and taints "
            "of all keys are tolerated."
        ),
    )
    operator: str = field(
        2,
        default="Equal",
        enum=("Exists", "Equal"),
        doc=(
            "Exists tolerates every value of the key. Equal (the default) tolerates the given "
            "value only."
        ),
    )
    value: str = field(
        3, doc="Value of the tolerated taint for the operator Equal. It must be empty for Exists."
    )
    effect: str = field(
        4,
        enum=("None", "NoSchedule", "NoExecute"),
        doc=(
            "Effect of the tolerated taint: None, NoSchedule or NoExecute. If it is empty, all "
            "effects are tolerated."
        ),
    )
    tolerationSeconds: int64 | None = field(
        5,
        doc=(
            "Seconds that a pod keeps running after a NoExecute taint was added. If absent, the "
            "pod is never evicted; zero or less evicts it at once."
        ),
    )


class ExactDeviceRequest(Type):
    """A request for one or more devices of the same class."""

    deviceClassName: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "The device class whose selectors and configuration apply to the request. Claims with "
            "adminAccess need it too."
        ),
    )
    selectors: list[DeviceSelector] = field(
        2,
        doc=(
            "Conditions that a device must satisfy besides those of its class; all must be true. "
            "At most 32."
        ),
    )
    allocationMode: str = field(
        3,
        enum=("ExactCount", "All"),
        doc=(
            "ExactCount (the default) allocates count devices. All allocates every matching "
            "device, at least one, and fails if some are in use and adminAccess is not set."
        ),
    )
    count: int64 = field(
        4,
        doc=(
            "Number of devices to allocate in the mode ExactCount; 1 if it is unset. It must be "
            "unset in the mode All."
        ),
    )
    adminAccess: bool | None = field(
        5,
        doc=(
            "If true, the devices may be in use by other claims, for example for monitoring. The "
            "namespace needs the label resource.kubernetes.io/admin-access."
        ),
    )
    tolerations: list[DeviceToleration] = field(
        6,
        doc=(
            "Taints of devices that the request accepts. Taints with the effect None need no "
            "toleration."
        ),
    )
    capacity: CapacityRequirements | None = field(
        7,
        doc=(
            "The least capacity that each device must have. A device that allows multiple "
            "allocations has this amount consumed by the request."
        ),
    )
    derivedAttributes: list[DeviceDerivedAttribute] = field(
        8,
        doc=(
            "Attributes that are computed from each candidate device. The constraints of the "
            "claim may refer to them."
        ),
    )


class NetworkDeviceData(Type):
    """Interface and addresses of a network device, as its driver reports them."""

    interfaceName: str = field(
        1, doc="Name of the network interface of the device, such as eth0. At most 256 bytes."
    )
    ips: list[str] = field(
        2,
        doc=(
            "The addresses of the interface with prefix length, such as 192.0.2.5/24 or "
            "2001:db8::5/64. At most 16."
        ),
    )
    hardwareAddress: str = field(
        3, doc="The hardware address (MAC address) of the interface. At most 128 bytes."
    )


class NodeAllocatableMapping(Type):
    """Formula for the node resource that an allocated device takes up; one form is set."""

    capacityKey: str | None = field(
        1,
        doc=(
            "Name of the device capacity from which the amount is computed. Requires "
            "capacityMultiplier; excludes deviceMultiplier."
        ),
    )
    capacityMultiplier: Quantity | None = field(
        2,
        doc="Amount of the node's resource for each unit of the capacity. Requires capacityKey.",
    )
    deviceMultiplier: Quantity | None = field(
        3, doc="Amount of the node's resource for each device. Excludes capacityKey."
    )


class NodeAllocatableOverhead(Type):
    """Amounts of a node resource that a device takes in addition, by pod and container."""

    perPod: Quantity | None = field(
        1, doc="The amount that each pod with the device takes of the node's resource."
    )
    perContainer: Quantity | None = field(
        2, doc="The amount that each container with the device takes of the node's resource."
    )


class NodeAllocatableResource(Type):
    """The amount of one node resource that a device takes up."""

    mapping: NodeAllocatableMapping | None = field(
        3, doc="Formula for the amount, from the number of devices or from their capacity."
    )
    overhead: NodeAllocatableOverhead | None = field(
        4,
        doc=(
            "A fixed amount for each pod or container that uses the device, on top of the mapping."
        ),
    )


class OpaqueDeviceConfiguration(Type):
    """Parameters for one driver, which Kubernetes does not interpret."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the DRA driver that understands the parameters, a DNS subdomain. Other "
            "drivers ignore them."
        ),
    )
    parameters: RawExtension = field(
        2,
        required=True,
        doc=(
            "Any JSON object of at most 10 KiB. Drivers expect apiVersion and kind in it, as in "
            "other Kubernetes objects."
        ),
    )


class ResourceClaim(Kind):
    """A request for devices in a namespace; the scheduler allocates them for pods."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Pods refer to the claim by its name."
    )
    spec: ResourceClaimSpec = field(
        2, doc="The devices that are requested. It cannot be changed after creation."
    )
    status: ResourceClaimStatus = field(
        3, doc="The allocated devices, and the pods that may use them."
    )


class ResourceClaimConsumerReference(Type):
    """An object, usually a pod, that may use a claim."""

    apiGroup: str = field(
        1, doc="API group of the object. It is empty for the core group, as for pods."
    )
    resource: str = field(
        3, always=True, required=True, doc="Plural name of the object's resource, such as pods."
    )
    name: str = field(
        4, always=True, required=True, doc="Name of the object, in the namespace of the claim."
    )
    uid: str = field(
        5,
        always=True,
        required=True,
        doc="UID of the object. It tells an object from an earlier one of the same name.",
    )


class ResourceClaimSpec(Type):
    """The devices that a claim requests."""

    devices: DeviceClaim = field(
        1,
        doc=(
            "The requests for devices, with constraints between them and configuration for their "
            "drivers."
        ),
    )


class ResourceClaimStatus(Type):
    """The devices that are allocated to a claim, and its users."""

    allocation: AllocationResult | None = field(
        1,
        doc=(
            "The allocated devices. It is absent until the claim is allocated, and cannot be "
            "changed until it is removed again."
        ),
    )
    reservedFor: list[ResourceClaimConsumerReference] = field(
        2,
        keys=("uid",),
        merge="uid",
        doc=(
            "The objects, usually pods, that may use the claim, at most 256. While the list is "
            "not empty, the claim stays allocated."
        ),
    )
    devices: list[AllocatedDeviceStatus] = field(
        4,
        keys=("driver", "device", "pool", "shareID"),
        doc=(
            "Reports of drivers about allocated devices. Each item must name a device of the "
            "allocation."
        ),
    )


class ResourceClaimTemplate(Kind):
    """A template from which a claim is made for each pod that refers to it."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Pods refer to the template by its name."
    )
    spec: ResourceClaimTemplateSpec = field(
        2,
        doc=(
            "The labels, annotations and spec of the claims. It cannot be changed after creation."
        ),
    )


class ResourceClaimTemplateSpec(Type):
    """Metadata and spec of the claims that are made from a template."""

    metadata: ObjectMeta = field(
        1, doc="Labels and annotations that the claims get; other fields are not allowed."
    )
    spec: ResourceClaimSpec = field(2, doc="The spec of the claims, copied without change.")


class ResourcePool(Type):
    """The pool to which a slice belongs."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the pool, often that of its node. Segments of DNS subdomains separated by "
            "slashes, at most 253 characters."
        ),
    )
    generation: int64 = field(
        2,
        always=True,
        required=True,
        doc=(
            "A number that the driver raises with each change of the pool. Slices with a lower "
            "number than the highest one in the pool are out of date."
        ),
    )
    resourceSliceCount: int64 = field(
        3,
        always=True,
        required=True,
        doc=(
            "Number of slices that the pool has at this generation; greater than zero. With fewer "
            "slices, the pool is incomplete."
        ),
    )


class ResourceSlice(Kind):
    """Some of the devices that a driver offers in a pool."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ResourceSliceSpec = field(
        2,
        required=True,
        doc=(
            "The devices of the slice, or their counters, and the nodes that reach them. Driver, "
            "pool and nodeName cannot be changed."
        ),
    )


class ResourceSliceSpec(Type):
    """The devices of a slice and where they are usable."""

    driver: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the DRA driver that offers the devices, a DNS subdomain of at most 63 "
            "characters. It cannot be changed."
        ),
    )
    pool: ResourcePool = field(
        2, required=True, doc="The pool of which the slice is a part. Its name cannot be changed."
    )
    nodeName: str | None = field(
        3,
        doc=(
            "The node that has the devices; it cannot be changed. Set exactly one of nodeName, "
            "nodeSelector, allNodes and perDeviceNodeSelection."
        ),
    )
    nodeSelector: NodeSelector | None = field(
        4,
        doc=(
            "The nodes that can use the devices; exactly one term. Excludes nodeName, allNodes "
            "and perDeviceNodeSelection."
        ),
    )
    allNodes: bool | None = field(
        5,
        doc=(
            "True if all nodes can use the devices; false is not allowed. Excludes nodeName, "
            "nodeSelector and perDeviceNodeSelection."
        ),
    )
    devices: list[Device] = field(
        6,
        doc=(
            "The devices, at most 128, or 64 if any has taints, counters or list attributes. "
            "Excludes sharedCounters."
        ),
    )
    perDeviceNodeSelection: bool | None = field(
        7,
        doc=(
            "True if each device states its own nodes. Excludes nodeName, nodeSelector and "
            "allNodes."
        ),
    )
    sharedCounters: list[CounterSet] = field(
        8,
        doc=(
            "Counter sets from which devices of other slices in the pool draw, at most 8. "
            "Excludes devices."
        ),
    )
    partitionTypeAttribute: str | None = field(
        9,
        doc=(
            "The device attribute that names the partition type of a device. Pool status groups "
            "its counts by this attribute."
        ),
    )
    skipNodeOperations: list[str] = field(
        10,
        enum=("NodePrepareResources", "NodeUnprepareResources", "*"),
        set=True,
        doc=(
            "Calls to the driver that the kubelet leaves out for these devices: "
            'NodePrepareResources, NodeUnprepareResources, or "*" for all.'
        ),
    )
