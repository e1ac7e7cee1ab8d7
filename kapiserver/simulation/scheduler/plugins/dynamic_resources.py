"""Dynamic resource allocation: the devices of a pod's ResourceClaims.

A claim that is allocated binds the pod to the nodes that reach its devices. For the others devices
are searched on each node (`scheduler/devices`). Mirrors the plugin dynamicresources of
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import uid_of, value_at
from kapiserver.api.core.node_affinity import term_matches
from kapiserver.api.types import Tree
from kapiserver.controllers.resource_claims.pod_claims import (
    ClaimProblem,
    allocation_of,
    is_reserved_for,
)
from kapiserver.simulation.scheduler.devices.allocation import allocation_tree
from kapiserver.simulation.scheduler.devices.allocator import Choice, allocate
from kapiserver.simulation.scheduler.devices.budget import Budget
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
    """A claim that is to be reserved for a pod; `allocation` is None if it is allocated already."""

    claim: Tree
    allocation: Tree | None


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
    if not pod.resource_claims:
        return None
    claims = snapshot.inventory.claims_of(pod.pod)
    unallocated = [each for each in claims if allocation_of(each) is None]
    selectors = _node_selectors(claims)
    budget = Budget()

    def check(node: NodeInfo) -> Rejection | None:
        if not all(_selects(each, node) for each in selectors):
            return _UNAVAILABLE
        try:
            if unallocated and allocate(unallocated, node, snapshot.inventory, budget) is None:
                return _NOT_ALLOCATED
        except SchedulingError as error:
            raise SchedulingError(f'running "DynamicResources" filter plugin: {error}') from None
        return None

    return check


def _node_selectors(claims: Sequence[Tree]) -> list[Tree]:
    found = (value_at(each, "status", "allocation", "nodeSelector") for each in claims)
    return [each for each in found if each is not None]


def _selects(selector: Tree, node: NodeInfo) -> bool:
    return any(term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def claims_to_reserve(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> list[ClaimToReserve]:
    """Return the claims that are to be allocated or reserved for a pod that fits on a node."""
    if not pod.resource_claims:
        return []
    claims = snapshot.inventory.claims_of(pod.pod)
    chosen = _choices(claims, snapshot, node)
    return [
        ClaimToReserve(
            claim,
            allocation_tree(claim, chosen[uid_of(claim)], node.name)
            if uid_of(claim) in chosen
            else None,
        )
        for claim in claims
        if not is_reserved_for(pod.pod, claim)
    ]


def _choices(
    claims: Sequence[Tree], snapshot: Snapshot, node: NodeInfo
) -> Mapping[str, Sequence[Choice]]:
    """Return the devices of the claims that are not allocated yet, by uid of the claim."""
    unallocated = [each for each in claims if allocation_of(each) is None]
    if not unallocated:
        return {}
    choices = allocate(unallocated, node, snapshot.inventory, Budget()) or []
    return {uid_of(each): one for each, one in zip(unallocated, choices, strict=True)}


def claim_to_free(pod: PodInfo, snapshot: Snapshot) -> Tree | None:
    """Return an allocated claim that keeps the pod from some node and that nobody else uses; None
    if there is none. Without its allocation, the pod may fit elsewhere."""
    if not pod.resource_claims:
        return None
    for claim in snapshot.inventory.claims_of(pod.pod):
        consumers = value_at(claim, "status", "reservedFor") or ()
        is_unused = all(each.get("uid") == pod.uid for each in consumers)
        selectors = _node_selectors([claim])
        if is_unused and not all(
            _selects(each, node) for node in snapshot.nodes for each in selectors
        ):
            return claim
    return None


def device_scores(pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Return a higher score for a node with preferred alternatives (`firstAvailable`)."""
    if not pod.resource_claims:
        return None
    claims = snapshot.inventory.claims_of(pod.pod)
    ranks = {
        f"{request['name']}/{each['name']}": _MAX_ALTERNATIVES - index
        for claim in claims
        for request in requests_of(claim)
        for index, each in enumerate(request.get("firstAvailable") or ())
    }
    if not ranks:
        return None
    return normalized([_rank(claims, snapshot, node, ranks) for node in nodes])


def _rank(
    claims: Sequence[Tree], snapshot: Snapshot, node: NodeInfo, ranks: Mapping[str, int]
) -> int:
    chosen = _choices(claims, snapshot, node).values()
    names = [{choice.request.name for choice in choices} for choices in chosen]
    return sum(ranks.get(name, 0) for each in names for name in each)
