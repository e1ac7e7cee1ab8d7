"""The PersistentVolumeClaims of a StatefulSet's pods: names, volumes and owners.

`spec.persistentVolumeClaimRetentionPolicy` says when claims are deleted. The garbage collector does
so, because a claim has owners:

| whenScaled | whenDeleted | owner while the pod's ordinal is in use | owner afterwards |
| --- | --- | --- | --- |
| Retain | Retain | | |
| Retain | Delete | StatefulSet | StatefulSet |
| Delete | Retain | | pod |
| Delete | Delete | StatefulSet | pod |

Mirrors pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.accessors import (
    copy_tree,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owners_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.claims import controller_reference

_SET = ("apps/v1", "StatefulSet")
_POD = ("v1", "Pod")


def claim_templates(owner: Tree) -> Sequence[Tree]:
    """Return `spec.volumeClaimTemplates`."""
    return value_at(owner, "spec", "volumeClaimTemplates") or ()


def claim_name(owner: Tree, template: Tree, ordinal: int) -> str:
    """Return the name of the claim that a pod has for a template."""
    return f"{name_of(template)}-{name_of(owner)}-{ordinal}"


def new_claims(owner: Tree, ordinal: int) -> list[Tree]:
    """Return the claims of a pod, without owners."""
    selected = value_at(owner, "spec", "selector", "matchLabels") or {}
    claims = []
    for template in claim_templates(owner):
        claim = copy_tree(template)
        claim.pop("status", None)
        metadata = metadata_of(claim)
        metadata["name"] = claim_name(owner, template, ordinal)
        metadata["namespace"] = namespace_of(owner)
        if labels := {**labels_of(template), **selected}:
            metadata["labels"] = labels
        claims.append(claim)
    return claims


def has_volumes(owner: Tree, pod: Tree, ordinal: int) -> bool:
    """Report whether the pod's volumes name its claims."""
    volumes = {volume["name"]: volume for volume in value_at(pod, "spec", "volumes") or ()}
    return all(
        value_at(volumes.get(name_of(template)) or {}, "persistentVolumeClaim", "claimName")
        == claim_name(owner, template, ordinal)
        for template in claim_templates(owner)
    )


def with_volumes(owner: Tree, pod: Tree, ordinal: int) -> Tree:
    """Return a copy of the pod whose volumes name its claims."""
    pod = copy_tree(pod)
    volumes: list[Tree] = [
        {
            "name": name_of(template),
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)},
        }
        for template in claim_templates(owner)
    ]
    if volumes:
        names = {volume["name"] for volume in volumes}
        present = value_at(pod, "spec", "volumes") or ()
        pod["spec"]["volumes"] = volumes + [
            volume for volume in present if volume["name"] not in names
        ]
    return pod


def retention_of(owner: Tree) -> tuple[bool, bool]:
    """Return whether claims are deleted when their pod is scaled away, and when the StatefulSet is
    deleted."""
    policy = value_at(owner, "spec", "persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") == "Delete", policy.get("whenDeleted") == "Delete"


def is_stale(owner: Tree, pod_name: str, claims: Mapping[str, Tree], ordinal: int) -> bool:
    """Report whether a claim belongs to a former pod of this name, so that the garbage collector
    deletes the claim before the pod may be created."""
    if not retention_of(owner)[0]:
        return False
    return any(
        _names(reference, _POD, pod_name)
        for template in claim_templates(owner)
        if (claim := claims.get(claim_name(owner, template, ordinal))) is not None
        for reference in owners_of(claim)
    )


def has_conflicting_controller(claim: Tree, owner: Tree, pod: Tree) -> bool:
    """Report whether another object controls a claim that the retention policy would delete."""
    if not any(retention_of(owner)):
        return False
    for reference in owners_of(claim):
        if _is_reference_to(reference, owner, pod):
            if reference["uid"] not in (uid_of(owner), uid_of(pod)):
                return True
        elif reference.get("controller"):
            return True
    return False


def with_owners(claim: Tree, owner: Tree, pod: Tree, *, in_use: bool) -> Tree:
    """Return the claim with the owners of the retention policy; the same claim if nothing changes.

    in_use  whether the StatefulSet should have the pod's ordinal
    """
    references = owners_of(claim)
    if any(_is_stale_reference(reference, owner, pod) for reference in references):
        return claim
    remaining = [
        reference for reference in references if not _is_reference_to(reference, owner, pod)
    ]
    if not has_conflicting_controller(claim, owner, pod):
        when_scaled, when_deleted = retention_of(owner)
        if when_scaled and not in_use:
            remaining.append(controller_reference(pod, *_POD))
        elif when_deleted:
            remaining.append(controller_reference(owner, *_SET))
    if _owner_set(remaining) == _owner_set(references):
        return claim
    changed: Tree = copy_tree(claim)
    metadata_of(changed)["ownerReferences"] = remaining
    return changed


def _owner_set(references: Sequence[Tree]) -> set[tuple[str, bool]]:
    return {(reference["uid"], bool(reference.get("controller"))) for reference in references}


def _is_stale_reference(reference: Tree, owner: Tree, pod: Tree) -> bool:
    is_current = reference["uid"] in (uid_of(owner), uid_of(pod))
    return not is_current and _is_reference_to(reference, owner, pod)


def _is_reference_to(reference: Tree, owner: Tree, pod: Tree) -> bool:
    """Report whether a reference names the StatefulSet or the pod, whatever their uids."""
    return _names(reference, _SET, name_of(owner)) or _names(reference, _POD, name_of(pod))


def _names(reference: Tree, kind: tuple[str, str], name: str) -> bool:
    return bool((reference["apiVersion"], reference["kind"]) == kind and reference["name"] == name)
