"""Validation of pods that are placed together, as their types declare them."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.declarative_validation import (
    check_immutable_fields,
    check_max_items,
    check_optional_text,
    check_positive,
    check_presence_unchanged,
    check_required_text,
    check_union,
    check_unique,
    same_union_members,
)
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.scheduling.validation.priority_classes import PREEMPTION, USER_MAX
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_CLAIMS_MAX = 4
_POLICIES = ("basic", "gang")
_MODES = ("single", "all")
_CLAIMS = ("resourceClaimName", "resourceClaimTemplateName")
_COUNTS = ("minCount", "minGroupCount")
_KEPT = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
"""What groups, and templates of groups, keep."""


def validate_pod_group(obj: Tree) -> Iterator[FieldError]:
    """Validate a new group, of pods or of groups."""
    spec = obj.get("spec") or {}
    parent, origin = spec.get("parentCompositePodGroupName"), spec.get("workloadRef")
    workload_ref_path = _SPEC / "workloadRef"
    if parent is not None:
        name_path = _SPEC / "parentCompositePodGroupName"
        yield from _given_name(parent, name_path)
    if origin is None and (obj.get("kind") == "CompositePodGroup" or parent is not None):
        yield required(workload_ref_path)
    elif origin is not None:
        yield from check_required_text(
            origin.get("workloadName"), names.dns1123_subdomain, workload_ref_path / "workloadName"
        )
        yield from check_required_text(
            origin.get("templateName"), names.dns1123_label, workload_ref_path / "templateName"
        )
    yield from group(spec, _SPEC)


def _given_name(name: str, path: Path) -> Iterator[FieldError]:
    return (invalid(path, name, message) for message in names.dns1123_subdomain(name))


def group(spec: Tree, path: Path) -> Iterator[FieldError]:
    """What groups and templates of groups have in common, new."""
    yield from policy(spec.get("schedulingPolicy") or {}, path / "schedulingPolicy")
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    topology_path = path / "schedulingConstraints" / "topology"
    yield from check_max_items(topology, 1, topology_path)
    for index, one in enumerate(topology if len(topology) <= 1 else ()):
        yield from check_required_text(
            one.get("key"), names.qualified_name, topology_path[index] / "key"
        )
    yield from _claims(spec, path / "resourceClaims")
    if spec.get("disruptionMode") is not None:
        yield from check_union(spec["disruptionMode"], _MODES, path / "disruptionMode")
    yield from check_optional_text(
        spec.get("priorityClassName"), names.dns1123_subdomain, path / "priorityClassName"
    )
    priority, preemption = spec.get("priority") or 0, spec.get("preemptionPolicy")
    if priority > USER_MAX:
        detail = f"must be less than or equal to {USER_MAX}"
        yield invalid(path / "priority", priority, detail)
    if preemption is not None and preemption not in PREEMPTION:
        yield not_supported(path / "preemptionPolicy", preemption, PREEMPTION)


def _claims(spec: Tree, path: Path) -> Iterator[FieldError]:
    claims = spec.get("resourceClaims") or ()
    if len(claims) > _CLAIMS_MAX:
        yield from check_max_items(claims, _CLAIMS_MAX, path)
        return
    yield from check_unique(claims, lambda one: one.get("name"), path)
    for index, claim in enumerate(claims):
        yield from check_union(claim, _CLAIMS, path[index])
        yield from check_required_text(claim.get("name"), names.dns1123_label, path[index] / "name")
        for name in _CLAIMS:
            if claim.get(name) is not None:
                yield from _given_name(claim[name], path[index] / name)


def policy(policy: Tree, path: Path) -> Iterator[FieldError]:
    """How a group is scheduled."""
    yield from check_union(policy, _POLICIES, path)
    gang = policy.get("gang")
    if gang is not None:
        yield from _least(gang, path / "gang")


def _least(gang: Tree, path: Path) -> Iterator[FieldError]:
    name = next((name for name in _COUNTS if name in gang), _COUNTS[0])
    yield from check_positive(gang.get(name), path / name)


def validate_pod_group_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A group that is to be changed: how many of it are needed may, and nothing else."""
    yield from changed_group(new.get("spec") or {}, old.get("spec") or {}, _SPEC)


def changed_group(new: Tree, old: Tree, path: Path) -> Iterator[FieldError]:
    """A group, or a template of one, that is to be changed."""
    its = new.get("schedulingPolicy") or {}
    old_scheduling_policy = old.get("schedulingPolicy") or {}
    scheduling_policy_path = path / "schedulingPolicy"
    if not same_union_members(its, old_scheduling_policy, _POLICIES):
        yield from check_union(its, _POLICIES, scheduling_policy_path)
    basic, gang = its.get("basic"), its.get("gang")
    if basic != old_scheduling_policy.get("basic"):
        yield invalid(scheduling_policy_path / "basic", None, IMMUTABLE)
    yield from check_presence_unchanged(
        gang, old_scheduling_policy.get("gang"), scheduling_policy_path / "gang"
    )
    if gang is not None and gang != old_scheduling_policy.get("gang"):
        yield from _least(gang, scheduling_policy_path / "gang")
    yield from check_immutable_fields(new, old, _KEPT, path)


def validate_pod_group_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What is known of a group: claims only of those it names."""
    status, spec = new.get("status") or {}, new.get("spec") or {}
    yield from validate_conditions(status.get("conditions"), _STATUS / "conditions")
    claims = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    resource_claim_statuses = status.get("resourceClaimStatuses") or ()
    statuses_path = _STATUS / "resourceClaimStatuses"
    for index, one in enumerate(resource_claim_statuses):
        if one.get("name") not in claims:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(statuses_path[index] / "name", one.get("name") or "", detail)
    if len(resource_claim_statuses) > _CLAIMS_MAX:
        yield from check_max_items(resource_claim_statuses, _CLAIMS_MAX, statuses_path)
        return
    yield from check_unique(resource_claim_statuses, lambda one: one.get("name"), statuses_path)
    for index, one in enumerate(resource_claim_statuses):
        if one.get("resourceClaimName") is not None:
            yield from _given_name(
                one["resourceClaimName"], statuses_path[index] / "resourceClaimName"
            )
