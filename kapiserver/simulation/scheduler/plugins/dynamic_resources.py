"""Dynamic resource allocation: the devices of a pod's ResourceClaims.

A claim that is allocated binds the pod to the nodes that reach its devices. For the others devices
are searched on each node (`scheduler/devices`). Mirrors the plugin dynamicresources of
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import value_at
from kapiserver.api.core.pods.node_affinity import term_matches
from kapiserver.api.types import Tree
from kapiserver.controllers.resource_claims.pod_claims import (
    ClaimProblem,
    allocation_of,
    is_reserved_for,
)
from kapiserver.simulation.scheduler.devices.allocation import allocation_tree
from kapiserver.simulation.scheduler.devices.allocator import allocate
from kapiserver.simulation.scheduler.devices.budget import Budget
from kapiserver.simulation.scheduler.devices.extended_resources import (
    ExtendedClaim,
    classes_of,
    extended_claim,
)
from kapiserver.simulation.scheduler.devices.requests import class_names, requests_of
from kapiserver.simulation.scheduler.plugins.normalize import normalized
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_UNAVAILABLE = Rejection(("resourceclaim not available on the node",), resolvable=False)
_NOT_ALLOCATED = Rejection(("cannot allocate all claims",), resolvable=False)
_MAX_ALTERNATIVES = 8


class ClaimToReserve(NamedTuple):
    """A claim that is to be reserved for a pod.

    allocation  its devices; None if it is allocated already
    mappings    of a claim for extended resources, which is to be created first: which request is
                for which resource of which container
    """

    claim: Tree
    allocation: Tree | None
    mappings: Sequence[Tree] = ()


class _PodClaims:
    """The claims of a pod, and the one for its extended resources, which depends on the node."""

    def __init__(self, pod: PodInfo, snapshot: Snapshot) -> None:
        self._pod = pod.pod
        self._inventory = snapshot.inventory
        self.claims = self._inventory.claims_of(pod.pod)
        self.unallocated = [claim for claim in self.claims if allocation_of(claim) is None]
        self._classes = extended_classes(pod, snapshot)
        self._extended: dict[tuple[str, ...], ExtendedClaim] = {}

    def extended(self, node: NodeInfo) -> ExtendedClaim | None:
        """Return the claim for the resources that the node does not have itself; None if it has
        all of them."""
        missing = tuple(name for name in self._classes if not node.allocatable.get(name))
        if not missing:
            return None
        if missing not in self._extended:
            classes = {name: self._classes[name] for name in missing}
            self._extended[missing] = extended_claim(self._pod, classes)
        return self._extended[missing]

    def choose(self, node: NodeInfo, budget: Budget) -> list[ClaimToReserve] | None:
        """Return the claims that are not allocated yet with their devices on a node; None if it
        does not have the devices. Raises SchedulingError."""
        extended = self.extended(node)
        claims = [*self.unallocated, *([extended.tree] if extended else ())]
        choices = allocate(claims, node, self._inventory, budget) if claims else []
        if choices is None:
            return None
        return [
            ClaimToReserve(
                claim,
                allocation_tree(claim, chosen, node.name),
                extended.mappings if extended is not None and claim is extended.tree else (),
            )
            for claim, chosen in zip(claims, choices, strict=True)
        ]


def extended_classes(pod: PodInfo, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the device classes of the extended resources that a pod requests."""
    return classes_of((name for name in pod.requests if "/" in name), snapshot.inventory.classes)


def _pod_claims(pod: PodInfo, snapshot: Snapshot) -> _PodClaims | None:
    """Return the claims of a pod; None if it does not need devices."""
    if not pod.resource_claims and not extended_classes(pod, snapshot):
        return None
    return _PodClaims(pod, snapshot)


def resource_claim_gate(pod: PodInfo, snapshot: Snapshot) -> str:
    """Return why the pod is not scheduled before its claims change, or "": a claim is missing or is
    being deleted."""
    try:
        snapshot.inventory.claims_of(pod.pod)
    except ClaimProblem as problem:
        return str(problem)
    return ""


def resource_claim_problem(pod: PodInfo, snapshot: Snapshot) -> str:
    """Return why no node can take the pod as long as its claims are as they are, or ""."""
    if not pod.resource_claims:
        return ""
    for claim in snapshot.inventory.claims_of(pod.pod):
        if allocation_of(claim) is None:
            for request, name in class_names(claim):
                if name not in snapshot.inventory.classes:
                    return f"request {request}: device class {name} does not exist"
    return ""


def device_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes that cannot use the allocated devices of the pod's claims, or do not have
    devices for the others (DynamicResources). The check raises SchedulingError."""
    claims = _pod_claims(pod, snapshot)
    if claims is None:
        return None
    selectors = _node_selectors(claims.claims)
    budget = Budget()

    def check(node: NodeInfo) -> Rejection | None:
        if not all(_selects(selector, node) for selector in selectors):
            return _UNAVAILABLE
        try:
            return _NOT_ALLOCATED if claims.choose(node, budget) is None else None
        except SchedulingError as error:
            raise SchedulingError(f'running "DynamicResources" filter plugin: {error}') from None

    return check


def _node_selectors(claims: Sequence[Tree]) -> list[Tree]:
    selectors = (value_at(claim, "status", "allocation", "nodeSelector") for claim in claims)
    return [selector for selector in selectors if selector is not None]


def _selects(selector: Tree, node: NodeInfo) -> bool:
    return any(term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def claims_to_reserve(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> list[ClaimToReserve]:
    """Return the claims that are to be allocated or reserved for a pod that fits on a node."""
    claims = _pod_claims(pod, snapshot)
    if claims is None:
        return []
    allocated = [claim for claim in claims.claims if allocation_of(claim) is not None]
    return [
        *(claims.choose(node, Budget()) or ()),
        *(
            ClaimToReserve(claim, None)
            for claim in allocated
            if not is_reserved_for(pod.pod, claim)
        ),
    ]


def claim_to_free(pod: PodInfo, snapshot: Snapshot) -> Tree | None:
    """Return an allocated claim that keeps the pod from some node and that nobody else uses; None
    if there is none. Without its allocation, the pod may fit elsewhere."""
    if not pod.resource_claims:
        return None
    for claim in snapshot.inventory.claims_of(pod.pod):
        consumers = value_at(claim, "status", "reservedFor") or ()
        is_unused = all(consumer.get("uid") == pod.uid for consumer in consumers)
        selectors = _node_selectors([claim])
        if is_unused and not all(
            _selects(selector, node) for node in snapshot.nodes for selector in selectors
        ):
            return claim
    return None


def device_scores(pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Return a higher score for a node with preferred alternatives (`firstAvailable`)."""
    if not pod.resource_claims:
        return None
    claims = _PodClaims(pod, snapshot)
    ranks = {
        f"{request['name']}/{subrequest['name']}": _MAX_ALTERNATIVES - index
        for claim in claims.claims
        for request in requests_of(claim)
        for index, subrequest in enumerate(request.get("firstAvailable") or ())
    }
    if not ranks:
        return None
    return normalized([_rank(claims, node, ranks) for node in nodes])


def _rank(claims: _PodClaims, node: NodeInfo, ranks: Mapping[str, int]) -> int:
    results = (
        value_at(choice.allocation or {}, "devices", "results") or ()
        for choice in claims.choose(node, Budget()) or ()
    )
    names = [{result["request"] for result in results_of_claim} for results_of_claim in results]
    return sum(ranks.get(name, 0) for names_of_claim in names for name in names_of_claim)
