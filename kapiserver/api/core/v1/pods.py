"""Pod, and the templates that pods are created from."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import Container, EphemeralContainer, ResourceRequirements
from kapiserver.api.core.v1.pod_status import PodStatus
from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.core.v1.scheduling import Affinity, Toleration, TopologySpreadConstraint
from kapiserver.api.core.v1.security import PodSecurityContext
from kapiserver.api.core.v1.volumes import Volume
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Kind, Type, field, int32, int64


class Pod(Kind):
    """A group of containers that run together on one node and share network and volumes."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name becomes the pod's host name, so it should be a "
            "DNS label."
        ),
    )
    spec: PodSpec = field(
        2,
        doc=(
            "Desired state of the pod: its containers, volumes and scheduling rules. Little of it "
            "may change later."
        ),
    )
    status: PodStatus = field(
        3,
        doc=(
            "Observed state of the pod: its phase, conditions, addresses and containers. The "
            "kubelet reports it."
        ),
    )


class PodSpec(Type):
    """Containers, volumes, identity and scheduling rules of a pod."""

    volumes: list[Volume] = field(
        1,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Volumes that the pod's containers can mount, one entry per name.",
    )
    initContainers: list[Container] = field(
        20,
        keys=("name",),
        merge="name",
        doc=(
            "Containers that run one after another before the others start. Each must exit with "
            "0, except sidecars (restartPolicy: Always), which keep running."
        ),
    )
    containers: list[Container] = field(
        2,
        always=True,
        keys=("name",),
        merge="name",
        doc="Regular containers of the pod, at least one. None can be added or removed later.",
        required=True,
    )
    ephemeralContainers: list[EphemeralContainer] = field(
        34,
        keys=("name",),
        merge="name",
        doc=(
            "Containers that were added to the running pod to debug it. Set only through the "
            "ephemeralcontainers subresource; none can be removed."
        ),
    )
    restartPolicy: str = field(
        3,
        enum=("Always", "OnFailure", "Never"),
        doc=(
            "When exited containers are restarted: Always, OnFailure or Never. Default: Always, "
            "which controllers of long-running pods require."
        ),
    )
    terminationGracePeriodSeconds: int64 | None = field(
        4,
        doc=(
            "Seconds from the stop signal to the forced kill of the containers. 0: kill at once. "
            "Default: 30. A deletion can name another period."
        ),
    )
    activeDeadlineSeconds: int64 | None = field(
        5,
        doc=(
            "Seconds, counted from startTime, after which the pod is failed and its containers "
            "killed. At least 1. When absent: no deadline. It can only be lowered."
        ),
    )
    dnsPolicy: str = field(
        6,
        enum=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        doc=(
            "Source of DNS settings: ClusterFirst, ClusterFirstWithHostNet (for pods with "
            "hostNetwork), Default (the node's) or None (dnsConfig alone). Default: ClusterFirst."
        ),
    )
    nodeSelector: dict[str, str] = field(
        7, atomic=True, doc="Labels that a node must have to run the pod. When empty: any node."
    )
    serviceAccountName: str = field(8, doc="ServiceAccount that the pod runs as. Default: default.")
    serviceAccount: str = field(
        9, doc="Deprecated alias of serviceAccountName. The server keeps both equal."
    )
    automountServiceAccountToken: bool | None = field(
        21,
        doc=(
            "Whether a token of the service account is mounted in the containers. When absent: as "
            "the service account says, or true."
        ),
    )
    nodeName: str = field(
        10,
        doc=(
            "Node that runs the pod. The scheduler sets it. If you set it yourself, no scheduler "
            "checks resources or affinity."
        ),
    )
    hostNetwork: bool = field(
        11,
        doc=(
            "Use the network of the node: its addresses and ports. Default: false. When true, "
            "each containerPort is a port of the node too."
        ),
    )
    hostPID: bool = field(
        12,
        doc=(
            "Use the process namespace of the node. Excludes shareProcessNamespace. Default: false."
        ),
    )
    hostIPC: bool = field(
        13,
        doc="Use the IPC namespace of the node: its shared memory and semaphores. Default: false.",
    )
    shareProcessNamespace: bool | None = field(
        27,
        doc=(
            "Share one process namespace among the pod's containers, so that they see each "
            "other's processes. Excludes hostPID. Default: false."
        ),
    )
    securityContext: PodSecurityContext | None = field(
        14,
        doc=(
            "User, groups and other privileges for all containers of the pod; containers can "
            "override most of them. Default: empty."
        ),
    )
    imagePullSecrets: list[LocalObjectReference] = field(
        15,
        keys=("name",),
        merge="name",
        doc=(
            "Secrets in the pod's namespace with credentials for image registries. Default: those "
            "of the service account."
        ),
    )
    hostname: str = field(16, doc="Host name of the pod: a DNS label. When empty: the pod's name.")
    subdomain: str = field(
        17,
        doc=(
            "Subdomain of the pod: its full host name is "
            "HOSTNAME.SUBDOMAIN.NAMESPACE.svc.CLUSTER-DOMAIN. Name a headless service like it for "
            "DNS records."
        ),
    )
    affinity: Affinity | None = field(
        18,
        doc=(
            "Rules that attract the pod to nodes and to other pods or keep it away from them. "
            "When absent: none."
        ),
    )
    schedulerName: str = field(
        19, doc="Scheduler that assigns the pod to a node. Default: default-scheduler."
    )
    tolerations: list[Toleration] = field(
        22,
        doc=(
            "Taints that the pod tolerates. Tolerations can be added to a running pod, but not "
            "removed."
        ),
    )
    hostAliases: list[HostAlias] = field(
        23,
        keys=("ip",),
        merge="ip",
        doc="Additional entries of the pod's /etc/hosts, one entry per IP address.",
    )
    priorityClassName: str = field(
        24,
        doc=(
            "PriorityClass that sets the priority, for example system-cluster-critical. When "
            "empty: the default class, or priority 0."
        ),
    )
    priority: int32 | None = field(
        25,
        doc=(
            "Priority of the pod: a higher one is scheduled first and may preempt lower ones. The "
            "server sets it from priorityClassName; another value is rejected."
        ),
    )
    dnsConfig: PodDNSConfig | None = field(
        26,
        doc=(
            "DNS settings that are merged with those of dnsPolicy. Required, with name servers, "
            "when dnsPolicy is None."
        ),
    )
    readinessGates: list[PodReadinessGate] = field(
        28,
        doc=(
            "Conditions that must be True, besides the readiness of all containers, for the pod "
            "to be ready."
        ),
    )
    runtimeClassName: str | None = field(
        29,
        doc=(
            "RuntimeClass that selects the container runtime of the node. When absent: the "
            "default runtime."
        ),
    )
    enableServiceLinks: bool | None = field(
        30,
        doc=(
            "Give the containers environment variables for each service of the namespace, such as "
            "NAME_SERVICE_HOST. Default: true."
        ),
    )
    preemptionPolicy: str | None = field(
        31,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "Whether the pod may preempt pods of lower priority: PreemptLowerPriority or Never. "
            "Default: as the PriorityClass says."
        ),
    )
    overhead: dict[str, Quantity] = field(
        32,
        doc=(
            "Resources for running the pod besides those of its containers. Set at admission from "
            "the RuntimeClass; another value is rejected."
        ),
    )
    topologySpreadConstraints: list[TopologySpreadConstraint] = field(
        33,
        keys=("topologyKey", "whenUnsatisfiable"),
        merge="topologyKey",
        doc=(
            "Rules for spreading matching pods over zones, nodes or other domains. The scheduler "
            "obeys all of them."
        ),
    )
    setHostnameAsFQDN: bool | None = field(
        35,
        doc=(
            "Use the fully qualified name as host name of the kernel. Without a subdomain it has "
            "no effect. Default: false."
        ),
    )
    os: PodOS | None = field(
        36,
        doc=(
            "Operating system that the pod needs. When it is set, fields of the other systems are "
            "rejected."
        ),
    )
    hostUsers: bool | None = field(
        37,
        doc=(
            "Use the user namespace of the node. false creates one for the pod, so that root in "
            "it is not root on the node. Default: true."
        ),
    )
    schedulingGates: list[PodSchedulingGate] = field(
        38,
        keys=("name",),
        merge="name",
        doc=(
            "Gates that hold the pod back from scheduling until all are removed. They can be set "
            "only at creation."
        ),
    )
    resourceClaims: list[PodResourceClaim] = field(
        39,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc=(
            "ResourceClaims for devices that must be allocated before the pod starts. Containers "
            "use them through resources.claims. One entry a name."
        ),
    )
    resources: ResourceRequirements | None = field(
        40,
        doc=(
            "Requests and limits for the pod as a whole: cpu, memory and huge pages, shared by "
            "its containers. Not for Windows."
        ),
    )
    hostnameOverride: str | None = field(
        41,
        doc=(
            "Host name of the pod, with up to 64 characters and dots, instead of hostname and "
            "subdomain. Excludes hostNetwork and setHostnameAsFQDN."
        ),
    )
    schedulingGroup: PodSchedulingGroup | None = field(
        43,
        doc=(
            "Group that the scheduler places together with the pod. Alpha: the server drops this "
            "field from new pods."
        ),
    )
    evictionResponders: list[EvictionResponder] = field(
        44,
        keys=("name",),
        merge="name",
        doc=(
            "Components, at most 10, that are asked in order of priority to evict the pod "
            "gracefully. Alpha: the server drops this field from new pods."
        ),
    )


class PodTemplate(Kind):
    """A template of pods, stored as an object."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. It describes the template object itself, not the pods."
    )
    template: PodTemplateSpec = field(
        2, doc="Metadata and spec of the pods that are created from this template."
    )


class PodTemplateSpec(Type):
    """Metadata and spec that pods get from a template."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Labels and annotations for the pods. The labels must match the selector of the "
            "controller that owns the template."
        ),
    )
    spec: PodSpec = field(
        2,
        doc=(
            "Desired state of each pod that is created from the template. Ephemeral containers "
            "are not allowed in it."
        ),
    )


class PodDNSConfig(Type):
    """DNS settings of a pod, merged with those of its dnsPolicy."""

    nameservers: list[str] = field(
        1,
        doc=(
            "IP addresses of DNS servers, put before those of dnsPolicy. At most 3, without "
            "duplicates."
        ),
    )
    searches: list[str] = field(
        2,
        doc=(
            "Search domains for short names, put before those of dnsPolicy. At most 32, with 2048 "
            "characters together."
        ),
    )
    options: list[PodDNSConfigOption] = field(
        3, doc="Options of the resolver. They override options of the same name from dnsPolicy."
    )


class PodDNSConfigOption(Type):
    """One option of the resolver, as in resolv.conf."""

    name: str = field(1, doc="Name of the resolver option, for example ndots. It is required.")
    value: str | None = field(
        2, doc="Value of the resolver option, for example 5. When absent: the option has no value."
    )


class PodOS(Type):
    """The operating system that a pod needs."""

    name: str = field(
        1, always=True, required=True, doc="Name of the operating system: linux or windows."
    )


class PodReadinessGate(Type):
    """A condition that must be True for the pod to be ready."""

    conditionType: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Type of a condition in the pod's status, for example "
            "example.com/load-balancer-attached. A missing condition counts as False."
        ),
    )


class PodSchedulingGate(Type):
    """Holds a pod back from scheduling until the gate is removed."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the gate, usually with the domain of its controller, for example "
            "example.com/quota. Unique in the pod."
        ),
    )


class PodSchedulingGroup(Type):
    """The group that the scheduler places together with a pod."""

    podGroupName: str | None = field(
        1, doc="PodGroup in the pod's namespace that the pod belongs to."
    )


class PodResourceClaim(Type):
    """A ResourceClaim that containers of the pod can use, or a template for one."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name by which containers refer to the claim: a DNS label, unique in the pod.",
    )
    resourceClaimName: str | None = field(
        3,
        doc=(
            "Existing ResourceClaim in the pod's namespace. Exactly one of this and "
            "resourceClaimTemplateName is set."
        ),
    )
    resourceClaimTemplateName: str | None = field(
        4,
        doc=(
            "ResourceClaimTemplate in the pod's namespace: a claim is created from it for the pod "
            "and deleted with it."
        ),
    )


class EvictionResponder(Type):
    """A component that is asked to evict a pod gracefully."""

    atomic = True

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the responder with its domain, for example example.com/migrator. Unique in "
            "the pod."
        ),
    )
    priority: int32 | None = field(
        2,
        always=True,
        required=True,
        doc="Order of the responders, 0 to 100000: the highest is asked first.",
    )


class HostAlias(Type):
    """One line of a pod's /etc/hosts."""

    ip: str = field(1, always=True, required=True, doc="IP address of the line in /etc/hosts.")
    hostnames: list[str] = field(2, doc="Host names for the IP address.")
