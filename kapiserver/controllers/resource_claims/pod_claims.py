"""The ResourceClaims of a pod: their names, and whether they are the pod's. All functions are pure.

A pod names a claim, or a template from which a claim is made for this pod alone; the status of the
pod has the names of these generated claims. Mirrors
k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    controller_of,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import is_finished, node_of

RESOURCE = GroupVersion("resource.k8s.io", "v1")
FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a generated claim: the name of the pod's reference to it."""
_MAX_PREFIX = 57
"""The longest prefix of a generated name that leaves room for a hyphen and 5 characters."""


class ClaimProblem(Exception):
    """A pod cannot use its claims as they are; the message is that of Kubernetes."""


def pod_claims_of(pod: Tree) -> Sequence[Tree]:
    """Return `spec.resourceClaims`: the pod's references to claims."""
    return value_at(pod, "spec", "resourceClaims") or ()


def claim_name(pod: Tree, reference: Tree) -> str:
    """Return the name of the claim of a reference, or "" if the pod needs none. Raises ClaimProblem
    if the claim is not made yet."""
    if reference.get("resourceClaimName"):
        return str(reference["resourceClaimName"])
    for status in value_at(pod, "status", "resourceClaimStatuses") or ():
        if status.get("name") == reference.get("name"):
            return status.get("resourceClaimName") or ""
    identity = f"{namespace_of(pod)}/{name_of(pod)}"
    raise ClaimProblem(f'pod "{identity}": ResourceClaim not created yet')


def claim_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the claims that a pod has by now, that for extended resources included."""
    for reference in pod_claims_of(pod):
        try:
            name = claim_name(pod, reference)
        except ClaimProblem:
            continue
        if name:
            yield name
    extended = value_at(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
    if extended:
        yield extended


def template_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the templates that a pod names."""
    for reference in pod_claims_of(pod):
        if reference.get("resourceClaimTemplateName"):
            yield reference["resourceClaimTemplateName"]


def owning_pod(claim: Tree) -> Tree | None:
    """Return the owner reference to the pod that a claim was made for; None if it has none."""
    owner = controller_of(claim)
    is_pod = owner is not None and (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod")
    return owner if is_pod else None


def check_owner(pod: Tree, reference: Tree, claim: Tree) -> None:
    """Raise ClaimProblem if a claim of a template was not made for the pod."""
    if reference.get("resourceClaimName") or (owning_pod(claim) or {}).get("uid") == uid_of(pod):
        return
    namespace = namespace_of(pod)
    raise ClaimProblem(
        f"ResourceClaim {namespace}/{name_of(claim)} was not created for Pod "
        f"{namespace}/{name_of(pod)} (Pod is not owner)"
    )


def is_reserved_for(pod: Tree, claim: Tree) -> bool:
    """Report whether `status.reservedFor` of a claim has the pod."""
    consumers = value_at(claim, "status", "reservedFor") or ()
    return any(consumer.get("uid") == uid_of(pod) for consumer in consumers)


def allocation_of(claim: Tree) -> Tree | None:
    """Return `status.allocation` of a claim; None if no devices are allocated."""
    allocation: Tree | None = value_at(claim, "status", "allocation")
    return allocation


def consumer_reference(pod: Tree) -> Tree:
    """Return the entry of `status.reservedFor` for a pod."""
    return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}


def is_done(pod: Tree) -> bool:
    """Report whether no container of the pod runs or will ever run."""
    return is_finished(pod) or (is_terminating(pod) and not node_of(pod))


def generated_claim(pod: Tree, reference: Tree, template: Tree) -> Tree:
    """Return the claim of a template for a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
    spec = template.get("spec") or {}
    return {
        "metadata": {
            "generateName": _name_prefix(name_of(pod), reference["name"]),
            "ownerReferences": [owner | {"controller": True}],
            "annotations": {**annotations_of(spec), POD_CLAIM_NAME: reference["name"]},
            "labels": dict(labels_of(spec)),
        },
        "spec": spec.get("spec") or {},
    }


def _name_prefix(pod_name: str, reference_name: str) -> str:
    """Return `POD-REFERENCE-`; if it is too long, both names are cut in proportion."""
    prefix = f"{pod_name}-{reference_name}-"
    if len(prefix) <= _MAX_PREFIX:
        return prefix
    cut = [text[: len(text) * _MAX_PREFIX // len(prefix)] for text in (pod_name, reference_name)]
    return "-".join(cut)
