"""What the scheduler reads of a pod; each part is parsed when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from kapiserver.api.accessors import (
    controller_of,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.core.pods.references import claim_names
from kapiserver.api.types import Tree
from kapiserver.simulation.scheduler.affinity_terms import PodAffinity, pod_affinity_of
from kapiserver.simulation.scheduler.host_ports import HostPort, host_ports_of
from kapiserver.simulation.scheduler.requests import (
    Quantities,
    requests_of,
    scored_requests_of,
)
from kapiserver.simulation.scheduler.spread_constraints import SpreadConstraint, constraints_of

_OWNERS_OF_REPLICAS = ("ReplicaSet", "ReplicationController", "StatefulSet")


class PodInfo:
    """One revision of a pod. `node_name` is the node that it runs on or is bound to, or ""."""

    def __init__(self, pod: Tree, node_name: str = "") -> None:
        self.pod = pod
        self.uid = uid_of(pod)
        self.name = name_of(pod)
        self.namespace = namespace_of(pod)
        self.labels: Mapping[str, str] = labels_of(pod)
        self.spec: Tree = pod.get("spec") or {}
        self.node_name: str = node_name or self.spec.get("nodeName") or ""
        self.priority: int = self.spec.get("priority") or 0
        self.is_terminating = is_terminating(pod)

    @functools.cached_property
    def owner(self) -> str:
        """The uid of the owner whose replica the pod is, or ""."""
        controller = controller_of(self.pod) or {}
        return controller.get("uid") or "" if controller.get("kind") in _OWNERS_OF_REPLICAS else ""

    @functools.cached_property
    def requests(self) -> Quantities:
        """The requested resources."""
        return requests_of(self.pod)

    @functools.cached_property
    def scored_requests(self) -> Quantities:
        """The requests that count in scores."""
        return scored_requests_of(self.pod)

    @functools.cached_property
    def host_ports(self) -> Sequence[HostPort]:
        """The ports of the host."""
        return host_ports_of(self.pod.get("spec") or {})

    @property
    def tolerations(self) -> Sequence[Tree]:
        """The tolerations of taints."""
        return self.spec.get("tolerations") or ()

    @functools.cached_property
    def affinity(self) -> PodAffinity | None:
        """Affinity and anti-affinity to other pods; None without them."""
        return pod_affinity_of(self.pod)

    @functools.cached_property
    def spread_constraints(self) -> Sequence[SpreadConstraint]:
        """The topology spread constraints."""
        return constraints_of(self.pod)

    @functools.cached_property
    def claims(self) -> Sequence[str]:
        """The names of the PersistentVolumeClaims of its volumes, ephemeral ones included."""
        return list(claim_names(self.pod))

    @property
    def resource_claims(self) -> Sequence[Tree]:
        """The references to ResourceClaims and to templates of them."""
        return self.spec.get("resourceClaims") or ()

    @property
    def nominated_node(self) -> str:
        """The node where the pod waits for the end of its victims, or ""."""
        return value_at(self.pod, "status", "nominatedNodeName") or ""

    @property
    def created(self) -> str:
        """When the pod was created, in a form that sorts by time."""
        return metadata_of(self.pod).get("creationTimestamp") or ""

    @property
    def started(self) -> str:
        """When the pod started, in a form that sorts by time; a pod that has not started sorts
        last."""
        return value_at(self.pod, "status", "startTime") or "~"
