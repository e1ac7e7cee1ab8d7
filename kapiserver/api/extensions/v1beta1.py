"""extensions/v1beta1: what groups of their own declare today."""

from __future__ import annotations

from kapiserver.api.core.v1 import PodTemplateSpec, TypedLocalObjectReference
from kapiserver.api.leaves import IntOrString, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class DaemonSet(Kind):
    """One pod on each node of a set."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DaemonSetSpec = field(2, doc="The desired state.")
    status: DaemonSetStatus = field(3, doc="The observed state.")


class DaemonSetCondition(Type):
    """One finding about a daemon set."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class DaemonSetSpec(Type):
    """Which pods, made from what, and how they are replaced."""

    selector: LabelSelector | None = field(1)
    template: PodTemplateSpec = field(2)
    updateStrategy: DaemonSetUpdateStrategy = field(3)
    minReadySeconds: int32 = field(4)
    templateGeneration: int64 = field(5)
    revisionHistoryLimit: int32 | None = field(6)


class DaemonSetStatus(Type):
    """What is known of a daemon set."""

    currentNumberScheduled: int32 = field(1, always=True)
    numberMisscheduled: int32 = field(2, always=True)
    desiredNumberScheduled: int32 = field(3, always=True)
    numberReady: int32 = field(4, always=True)
    observedGeneration: int64 = field(5)
    updatedNumberScheduled: int32 = field(6)
    numberAvailable: int32 = field(7)
    numberUnavailable: int32 = field(8)
    collisionCount: int32 | None = field(9)
    conditions: list[DaemonSetCondition] = field(10, keys=("type",), merge="type")


class DaemonSetUpdateStrategy(Type):
    """How the pods of a daemon set are replaced."""

    type: str = field(1)
    rollingUpdate: RollingUpdateDaemonSet | None = field(2)


class Deployment(Kind):
    """Keeps a number of pods running and rolls out their changes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: DeploymentSpec = field(2, doc="The desired state.")
    status: DeploymentStatus = field(3, doc="The observed state.")


class DeploymentCondition(Type):
    """One finding about a deployment."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastUpdateTime: Time = field(6, doc="When the finding was last made.")
    lastTransitionTime: Time = field(7, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class DeploymentRollback(Kind):
    """Asks for an earlier state of a deployment."""

    listed = False

    name: str = field(1, always=True)
    updatedAnnotations: dict[str, str] = field(2)
    rollbackTo: RollbackConfig = field(3)


class DeploymentSpec(Type):
    """How many pods, made from what, and how they are replaced."""

    replicas: int32 | None = field(1, doc="How many pods there should be.")
    selector: LabelSelector | None = field(2, doc="Labels of the deployment's pods.")
    template: PodTemplateSpec = field(3, doc="What the pods look like.")
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods give way to new ones."
    )
    minReadySeconds: int32 = field(5)
    revisionHistoryLimit: int32 | None = field(6)
    paused: bool = field(7, doc="No rollout while true.")
    rollbackTo: RollbackConfig | None = field(8)
    progressDeadlineSeconds: int32 | None = field(9)


class DeploymentStatus(Type):
    """What is known of a deployment."""

    observedGeneration: int64 = field(1)
    replicas: int32 = field(2)
    updatedReplicas: int32 = field(3)
    readyReplicas: int32 = field(7)
    availableReplicas: int32 = field(4)
    unavailableReplicas: int32 = field(5)
    terminatingReplicas: int32 | None = field(9)
    conditions: list[DeploymentCondition] = field(6, keys=("type",), merge="type")
    collisionCount: int32 | None = field(8)


class DeploymentStrategy(Type):
    """How the pods of a deployment are replaced."""

    type: str = field(1)
    rollingUpdate: RollingUpdateDeployment | None = field(2)


class HTTPIngressPath(Type):
    """A path and where its requests go."""

    path: str = field(1, doc="The path that requests must have.")
    pathType: str | None = field(3, doc="How paths are compared.")
    backend: IngressBackend = field(2, doc="Where the requests go.")


class HTTPIngressRuleValue(Type):
    """The paths of a rule."""

    paths: list[HTTPIngressPath] = field(1, always=True)


class IPBlock(Type):
    """A network, less some of it."""

    cidr: str = field(1, always=True, required=True, doc="The network.")
    except_: list[str] = field(2, doc="What of it is left out.")


class Ingress(Kind):
    """Leads requests from outside to services, by host and path."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IngressSpec = field(2, doc="The desired state.")
    status: IngressStatus = field(3, doc="The observed state.")


class IngressBackend(Type):
    """Where requests go."""

    serviceName: str = field(1)
    servicePort: IntOrString = field(2)
    resource: TypedLocalObjectReference | None = field(
        3, doc="An object, where there is no service."
    )


class IngressLoadBalancerIngress(Type):
    """One address of an ingress."""

    ip: str = field(1)
    hostname: str = field(2)
    ports: list[IngressPortStatus] = field(4)


class IngressLoadBalancerStatus(Type):
    """The addresses of an ingress."""

    ingress: list[IngressLoadBalancerIngress] = field(1)


class IngressPortStatus(Type):
    """One port of an address, or what went wrong."""

    port: int32 = field(1, always=True)
    protocol: str = field(2, always=True, enum=("TCP", "UDP", "SCTP"))
    error: str | None = field(3, required=True)


class IngressRule(Type):
    """A host and its paths."""

    host: str = field(1, doc="The host name; empty for all.")
    ingressRuleValue: IngressRuleValue = field(2, inline=True)


class IngressRuleValue(Type):
    """What a rule is about."""

    http: HTTPIngressRuleValue | None = field(1)


class IngressSpec(Type):
    """Which hosts and paths lead where."""

    ingressClassName: str | None = field(4, doc="The class that serves it.")
    backend: IngressBackend | None = field(1)
    tls: list[IngressTLS] = field(2, doc="Certificates.")
    rules: list[IngressRule] = field(3, doc="Hosts and paths.")


class IngressStatus(Type):
    """What is known of an ingress."""

    loadBalancer: IngressLoadBalancerStatus = field(1)


class IngressTLS(Type):
    """A certificate and its hosts."""

    hosts: list[str] = field(1, doc="Hosts of the certificate.")
    secretName: str = field(2, doc="The secret with the certificate.")


class NetworkPolicy(Kind):
    """Who may talk to some pods, and whom they may talk to."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: NetworkPolicySpec = field(2, doc="The desired state.")


class NetworkPolicyEgressRule(Type):
    """Whom the pods may talk to, at which ports."""

    ports: list[NetworkPolicyPort] = field(1)
    to: list[NetworkPolicyPeer] = field(2)


class NetworkPolicyIngressRule(Type):
    """Who may talk to the pods, at which ports."""

    ports: list[NetworkPolicyPort] = field(1)
    from_: list[NetworkPolicyPeer] = field(2)


class NetworkPolicyPeer(Type):
    """Pods, namespaces or a network."""

    podSelector: LabelSelector | None = field(1)
    namespaceSelector: LabelSelector | None = field(2)
    ipBlock: IPBlock | None = field(3)


class NetworkPolicyPort(Type):
    """A port or a range of them."""

    protocol: str | None = field(1, enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    port: IntOrString | None = field(2, doc="The port by number or name; all without.")
    endPort: int32 | None = field(3, doc="The last port of a range.")


class NetworkPolicySpec(Type):
    """Which pods, and what they may do."""

    podSelector: LabelSelector = field(1, doc="The pods it is for.")
    ingress: list[NetworkPolicyIngressRule] = field(2, doc="Who may talk to them.")
    egress: list[NetworkPolicyEgressRule] = field(3, doc="Whom they may talk to.")
    policyTypes: list[str] = field(4, doc="Which directions it is about.")


class ReplicaSet(Kind):
    """Keeps a number of pods running."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ReplicaSetSpec = field(2, doc="The desired state.")
    status: ReplicaSetStatus = field(3, doc="The observed state.")


class ReplicaSetCondition(Type):
    """One finding about a replica set."""

    type: str = field(1, always=True, doc="What the finding is about.")
    status: str = field(2, always=True, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class ReplicaSetSpec(Type):
    """How many pods, which, and made from what."""

    replicas: int32 | None = field(1)
    minReadySeconds: int32 = field(4)
    selector: LabelSelector | None = field(2)
    template: PodTemplateSpec = field(3)


class ReplicaSetStatus(Type):
    """What is known of a replica set."""

    replicas: int32 = field(1, always=True)
    fullyLabeledReplicas: int32 = field(2)
    readyReplicas: int32 = field(4)
    availableReplicas: int32 = field(5)
    terminatingReplicas: int32 | None = field(7)
    observedGeneration: int64 = field(3)
    conditions: list[ReplicaSetCondition] = field(6, keys=("type",), merge="type")


class RollbackConfig(Type):
    """Which earlier state."""

    revision: int64 = field(1)


class RollingUpdateDaemonSet(Type):
    """Pace of a daemon set's rolling update."""

    maxUnavailable: IntOrString | None = field(1)
    maxSurge: IntOrString | None = field(2)


class RollingUpdateDeployment(Type):
    """Pace of a deployment's rolling update."""

    maxUnavailable: IntOrString | None = field(1)
    maxSurge: IntOrString | None = field(2)


class Scale(Kind):
    """How many pods of a workload are wanted and how many there are."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ScaleSpec = field(2, doc="The desired state.")
    status: ScaleStatus = field(3, doc="The observed state.")


class ScaleSpec(Type):
    """How many pods are wanted."""

    replicas: int32 = field(1, default=0)


class ScaleStatus(Type):
    """How many pods there are, and which."""

    replicas: int32 = field(1, always=True)
    selector: dict[str, str] = field(2, atomic=True)
    targetSelector: str = field(3)
