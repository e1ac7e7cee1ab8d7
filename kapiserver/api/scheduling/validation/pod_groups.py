"""Declarative validation of pod groups and composite pod groups."""

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
from kapiserver.api.scheduling.validation.priority_classes import PREEMPTION_POLICIES, USER_MAX
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_CLAIMS_MAX = 4
_POLICY_TYPES = ("basic", "gang")
_MODES = ("single", "all")
_CLAIM_FIELDS = ("resourceClaimName", "resourceClaimTemplateName")
_COUNT_FIELDS = ("minCount", "minGroupCount")
_IMMUTABLE_FIELDS = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
"""The immutable fields of groups and of group templates."""


def validate_pod_group(obj: Tree) -> Iterator[FieldError]:
    """Validate a new pod group or composite pod group."""
    spec = obj.get("spec") or {}
    parent_name, workload_ref = spec.get("parentCompositePodGroupName"), spec.get("workloadRef")
    workload_ref_path = _SPEC / "workloadRef"
    if parent_name is not None:
        name_path = _SPEC / "parentCompositePodGroupName"
        yield from _validate_subdomain(parent_name, name_path)
    if workload_ref is None and (obj.get("kind") == "CompositePodGroup" or parent_name is not None):
        yield required(workload_ref_path)
    elif workload_ref is not None:
        yield from check_required_text(
            workload_ref.get("workloadName"),
            names.dns1123_subdomain,
            workload_ref_path / "workloadName",
        )
        yield from check_required_text(
            workload_ref.get("templateName"),
            names.dns1123_label,
            workload_ref_path / "templateName",
        )
    yield from validate_group(spec, _SPEC)


def _validate_subdomain(name: str, path: Path) -> Iterator[FieldError]:
    return (invalid(path, name, message) for message in names.dns1123_subdomain(name))


def validate_group(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the fields that groups and group templates share."""
    yield from validate_policy(spec.get("schedulingPolicy") or {}, path / "schedulingPolicy")
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    topology_path = path / "schedulingConstraints" / "topology"
    yield from check_max_items(topology, 1, topology_path)
    for index, constraint in enumerate(topology if len(topology) <= 1 else ()):
        yield from check_required_text(
            constraint.get("key"), names.qualified_name, topology_path[index] / "key"
        )
    yield from _validate_claims(spec, path / "resourceClaims")
    if spec.get("disruptionMode") is not None:
        yield from check_union(spec["disruptionMode"], _MODES, path / "disruptionMode")
    yield from check_optional_text(
        spec.get("priorityClassName"), names.dns1123_subdomain, path / "priorityClassName"
    )
    priority, preemption_policy = spec.get("priority") or 0, spec.get("preemptionPolicy")
    if priority > USER_MAX:
        detail = f"must be less than or equal to {USER_MAX}"
        yield invalid(path / "priority", priority, detail)
    if preemption_policy is not None and preemption_policy not in PREEMPTION_POLICIES:
        yield not_supported(path / "preemptionPolicy", preemption_policy, PREEMPTION_POLICIES)


def _validate_claims(spec: Tree, path: Path) -> Iterator[FieldError]:
    claims = spec.get("resourceClaims") or ()
    if len(claims) > _CLAIMS_MAX:
        yield from check_max_items(claims, _CLAIMS_MAX, path)
        return
    yield from check_unique(claims, lambda entry: entry.get("name"), path)
    for index, claim in enumerate(claims):
        yield from check_union(claim, _CLAIM_FIELDS, path[index])
        yield from check_required_text(claim.get("name"), names.dns1123_label, path[index] / "name")
        for name in _CLAIM_FIELDS:
            if claim.get(name) is not None:
                yield from _validate_subdomain(claim[name], path[index] / name)


def validate_policy(policy: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the scheduling policy of a group."""
    yield from check_union(policy, _POLICY_TYPES, path)
    gang = policy.get("gang")
    if gang is not None:
        yield from _validate_min_count(gang, path / "gang")


def _validate_min_count(gang: Tree, path: Path) -> Iterator[FieldError]:
    name = next((name for name in _COUNT_FIELDS if name in gang), _COUNT_FIELDS[0])
    yield from check_positive(gang.get(name), path / name)


def validate_pod_group_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated group. Only the minimum counts are mutable."""
    yield from validate_group_update(new.get("spec") or {}, old.get("spec") or {}, _SPEC)


def validate_group_update(new: Tree, old: Tree, path: Path) -> Iterator[FieldError]:
    """Validate an updated group or group template."""
    policy = new.get("schedulingPolicy") or {}
    old_policy = old.get("schedulingPolicy") or {}
    policy_path = path / "schedulingPolicy"
    if not same_union_members(policy, old_policy, _POLICY_TYPES):
        yield from check_union(policy, _POLICY_TYPES, policy_path)
    basic, gang = policy.get("basic"), policy.get("gang")
    if basic != old_policy.get("basic"):
        yield invalid(policy_path / "basic", None, IMMUTABLE)
    yield from check_presence_unchanged(gang, old_policy.get("gang"), policy_path / "gang")
    if gang is not None and gang != old_policy.get("gang"):
        yield from _validate_min_count(gang, policy_path / "gang")
    yield from check_immutable_fields(new, old, _IMMUTABLE_FIELDS, path)


def validate_pod_group_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a group. It may contain only claims that the spec names."""
    status, spec = new.get("status") or {}, new.get("spec") or {}
    yield from validate_conditions(status.get("conditions"), _STATUS / "conditions")
    claims = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    claim_statuses = status.get("resourceClaimStatuses") or ()
    statuses_path = _STATUS / "resourceClaimStatuses"
    for index, claim_status in enumerate(claim_statuses):
        if claim_status.get("name") not in claims:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(statuses_path[index] / "name", claim_status.get("name") or "", detail)
    if len(claim_statuses) > _CLAIMS_MAX:
        yield from check_max_items(claim_statuses, _CLAIMS_MAX, statuses_path)
        return
    yield from check_unique(
        claim_statuses, lambda claim_status: claim_status.get("name"), statuses_path
    )
    for index, claim_status in enumerate(claim_statuses):
        if claim_status.get("resourceClaimName") is not None:
            yield from _validate_subdomain(
                claim_status["resourceClaimName"], statuses_path[index] / "resourceClaimName"
            )
