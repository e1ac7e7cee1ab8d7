"""Pod and the template it is made from."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import Container, EphemeralContainer, ResourceRequirements
from kapiserver.api.core.v1.pod_status import PodStatus
from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.core.v1.scheduling import Affinity, Toleration, TopologySpreadConstraint
from kapiserver.api.core.v1.security import PodSecurityContext
from kapiserver.api.core.v1.volumes import Volume
from kapiserver.api.leaves import Quantity
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class Pod(Kind):
    """Containers that run together on one node."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodSpec = field(2, doc="The desired state.")
    status: PodStatus = field(3, doc="The observed state.")


class PodSpec(Type):
    """What a pod should run, where and how."""

    volumes: list[Volume] = field(
        1,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Volumes that containers may mount.",
    )
    initContainers: list[Container] = field(
        20,
        keys=("name",),
        merge="name",
        doc="Containers that run to their end, in turn, before the others.",
    )
    containers: list[Container] = field(
        2,
        always=True,
        keys=("name",),
        merge="name",
        doc="Containers of the pod; at least one.",
        required=True,
    )
    ephemeralContainers: list[EphemeralContainer] = field(
        34, keys=("name",), merge="name", doc="Containers that were added to look into it."
    )
    restartPolicy: str = field(
        3, enum=("Always", "OnFailure", "Never"), doc="When ended containers start again."
    )
    terminationGracePeriodSeconds: int64 | None = field(
        4, doc="How long it has to end; 30 where nothing is said."
    )
    activeDeadlineSeconds: int64 | None = field(5, doc="How long it may run.")
    dnsPolicy: str = field(
        6,
        enum=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        doc="ClusterFirst, ClusterFirstWithHostNet, Default or None.",
    )
    nodeSelector: dict[str, str] = field(7, atomic=True, doc="Labels a node must have.")
    serviceAccountName: str = field(8, doc="The identity of the pod's processes.")
    serviceAccount: str = field(9, doc="Deprecated: use serviceAccountName.")
    automountServiceAccountToken: bool | None = field(
        21, doc="Whether pods get a token of the account."
    )
    nodeName: str = field(10, doc="The node the pod is on.")
    hostNetwork: bool = field(11, doc="Whether it is on the node's network.")
    hostPID: bool = field(12, doc="Whether it sees the node's processes.")
    hostIPC: bool = field(13, doc="Whether it shares the node's memory segments.")
    shareProcessNamespace: bool | None = field(
        27, doc="Whether its containers see each other's processes."
    )
    securityContext: PodSecurityContext | None = field(14, doc="As whom and how it runs.")
    imagePullSecrets: list[LocalObjectReference] = field(
        15, keys=("name",), merge="name", doc="Secrets with which images are pulled."
    )
    hostname: str = field(16, doc="Its host name; the pod's name where nothing is said.")
    subdomain: str = field(17, doc="The domain its name lies in.")
    affinity: Affinity | None = field(18, doc="Near what and far from what it runs.")
    schedulerName: str = field(19, doc="Who finds it a node.")
    tolerations: list[Toleration] = field(22, doc="Taints that do not keep the pod off.")
    hostAliases: list[HostAlias] = field(
        23, keys=("ip",), merge="ip", doc="Further lines of /etc/hosts."
    )
    priorityClassName: str = field(24, doc="The class that gives the priority.")
    priority: int32 | None = field(25, doc="The higher, the more important.")
    dnsConfig: PodDNSConfig | None = field(26, doc="How names are resolved, beside dnsPolicy.")
    readinessGates: list[PodReadinessGate] = field(28, doc="What else it takes to be ready.")
    runtimeClassName: str | None = field(29, doc="What runs its containers.")
    enableServiceLinks: bool | None = field(
        30, doc="Whether services are told as environment variables."
    )
    preemptionPolicy: str | None = field(
        31,
        enum=("PreemptLowerPriority", "Never"),
        doc="Whether others may go for it: Never or PreemptLowerPriority.",
    )
    overhead: dict[str, Quantity] = field(32, doc="What running it costs beside its containers.")
    topologySpreadConstraints: list[TopologySpreadConstraint] = field(
        33,
        keys=("topologyKey", "whenUnsatisfiable"),
        merge="topologyKey",
        doc="How pods of its sort are spread.",
    )
    setHostnameAsFQDN: bool | None = field(35, doc="Whether its host name is the full one.")
    os: PodOS | None = field(36, doc="The operating system it needs.")
    hostUsers: bool | None = field(37, doc="Whether it is in the node's user namespace.")
    schedulingGates: list[PodSchedulingGate] = field(
        38, keys=("name",), merge="name", doc="What must go before it is scheduled."
    )
    resourceClaims: list[PodResourceClaim] = field(
        39,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Claims to devices that its pods share.",
    )
    resources: ResourceRequirements | None = field(40, doc="What it needs, and may use.")
    hostnameOverride: str | None = field(41, doc="Its host name, whatever else is said.")
    schedulingGroup: PodSchedulingGroup | None = field(43, doc="The group it is scheduled with.")
    evictionResponders: list[EvictionResponder] = field(
        44, keys=("name",), merge="name", doc="Who answers when it shall be evicted."
    )


class PodTemplate(Kind):
    """A pod's description kept for making copies."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    template: PodTemplateSpec = field(2, doc="What pods are made from.")


class PodTemplateSpec(Type):
    """What the pods made from a template look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodSpec = field(2, doc="The desired state.")


class PodDNSConfig(Type):
    """Name resolution inside a pod."""

    nameservers: list[str] = field(1, doc="Addresses of name servers.")
    searches: list[str] = field(2, doc="Domains to search.")
    options: list[PodDNSConfigOption] = field(3, doc="Options of the resolver.")


class PodDNSConfigOption(Type):
    """One resolver option."""

    name: str = field(1, doc="Its name.")
    value: str | None = field(2, doc="Its value.")


class PodOS(Type):
    """The operating system a pod is for."""

    name: str = field(1, always=True, required=True, doc="linux or windows.")


class PodReadinessGate(Type):
    """A condition that must also hold before the pod counts as ready."""

    conditionType: str = field(
        1, always=True, required=True, doc="A condition of the pod that must be True."
    )


class PodSchedulingGate(Type):
    """Holds back scheduling until removed."""

    name: str = field(1, always=True, required=True, doc="Its name.")


class PodSchedulingGroup(Type):
    """The group a pod is scheduled with."""

    podGroupName: str | None = field(1, doc="The group, by name.")


class PodResourceClaim(Type):
    """A resource claim that the pod's containers may use."""

    name: str = field(1, always=True, required=True, doc="Its name in the pod.")
    resourceClaimName: str | None = field(3, doc="The claim, by name.")
    resourceClaimTemplateName: str | None = field(4, doc="The template that a claim is made from.")


class EvictionResponder(Type):
    """Who answers when a pod is to be evicted."""

    atomic = True

    name: str = field(1, always=True, required=True, doc="Its name.")
    priority: int32 | None = field(
        2, always=True, required=True, doc="The higher, the more important."
    )


class HostAlias(Type):
    """A line of the pod's hosts file."""

    ip: str = field(1, always=True, required=True, doc="An IP address.")
    hostnames: list[str] = field(2, doc="Names of that address.")
