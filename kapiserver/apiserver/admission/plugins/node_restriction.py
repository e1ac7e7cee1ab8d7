"""NodeRestriction: limits nodes to writes of their own Node and of objects that belong to it.

Mirrors plugin/pkg/admission/noderestriction of Kubernetes.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from kapiserver.api.accessors import copy_tree, metadata_of, name_of, uid_of, value_at
from kapiserver.api.certificates import pem
from kapiserver.api.core.pods.references import (
    MIRROR,
    config_map_names,
    is_mirror,
    secret_names,
)
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins import node_audiences
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.authorization.node.identity import PREFIX, node_name
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey

_LEASES = "kube-node-lease"
_RESTRICTED = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    (
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


async def admit(server: Server, attributes: Attributes, new: Tree | None, old: Tree | None) -> None:
    """Raise Forbidden for a write of a node on what does not belong to it, and NotFound for one
    that names a pod or node that does not exist."""
    node = node_name(attributes.user)
    if node is None:
        return
    if not node:
        user = quote(attributes.user.name)
        raise attributes.forbidden(f"could not determine node from user {user}")
    target = attributes.target
    check = _CHECKS.get((target.resource.qualified_name, target.subresource))
    if check is not None:
        await check(server, attributes, node, new, old)
    elif target.resource.qualified_name == "pods":
        raise attributes.forbidden(
            f"unexpected pod subresource {quote(target.subresource)}, only 'status' and "
            "'eviction' are allowed"
        )


async def _get(server: Server, resource: str, namespace: str, name: str) -> Tree:
    return (await server.stores.by_name(CORE, resource).get(ObjectKey(namespace, name))).tree()


# Pods.


async def _pod(
    server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if attributes.operation == "CREATE" and new is not None:
        _check_mirror(attributes, node, new)
        await _check_owner(server, attributes, node, new)
        _check_references(attributes, node, new)
    elif attributes.operation == "UPDATE":
        raise attributes.forbidden(
            f'unexpected operation "UPDATE", node {quote(node)} can only create and delete mirror '
            "pods"
        )
    elif value_at(old or {}, "spec", "nodeName") != node:
        raise attributes.forbidden(
            f"node {quote(node)} can only delete pods with spec.nodeName set to itself"
        )


def _check_mirror(attributes: Attributes, node: str, pod: Tree) -> None:
    if not is_mirror(pod):
        raise attributes.forbidden(
            f"pod does not have {quote(MIRROR)} annotation, node {quote(node)} can only create "
            "mirror pods"
        )
    if value_at(pod, "spec", "nodeName") != node:
        raise attributes.forbidden(
            f"node {quote(node)} can only create pods with spec.nodeName set to itself"
        )


async def _check_owner(server: Server, attributes: Attributes, node: str, pod: Tree) -> None:
    def refuse(restriction: str) -> Exception:
        return attributes.forbidden(f"node {quote(node)} {restriction}")

    owners = metadata_of(pod).get("ownerReferences") or ()
    if len(owners) > 1:
        raise refuse("can only create pods with a single owner reference set to itself")
    owner = owners[0] if owners else {}
    names = (owner.get("apiVersion"), owner.get("kind"), owner.get("name"))
    if names != ("v1", "Node", node):
        raise refuse("can only create pods with an owner reference set to itself")
    if not owner.get("controller"):
        raise refuse("can only create pods with a controller owner reference set to itself")
    if owner.get("blockOwnerDeletion"):
        raise refuse("must not set blockOwnerDeletion on an owner reference")
    uid = uid_of(await _get(server, "nodes", "", node))
    if owner.get("uid") != uid:
        raise attributes.forbidden(
            f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"
        )


def _check_references(attributes: Attributes, node: str, pod: Tree) -> None:
    """Raise Forbidden if a mirror pod names objects, because a node may read what its pods name."""
    spec = pod["spec"]
    volumes = spec.get("volumes") or ()
    references = {
        "a service account": bool(spec.get("serviceAccountName")),
        "secrets": any(True for _ in secret_names(pod)),
        "configmaps": any(True for _ in config_map_names(pod)),
        "clustertrustbundles": any(
            source.get("clusterTrustBundle") is not None
            for volume in volumes
            for source in value_at(volume, "projected", "sources") or ()
        ),
        "persistentvolumeclaims": any(
            volume.get("persistentVolumeClaim") is not None for volume in volumes
        ),
    }
    for reference, is_named in references.items():
        if is_named:
            raise attributes.forbidden(
                f"node {quote(node)} can not create pods that reference {reference}"
            )


async def _pod_status(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if value_at(old or {}, "spec", "nodeName") != node:
        raise attributes.forbidden(
            f"node {quote(node)} can only update pod status for pods with spec.nodeName set to "
            "itself"
        )
    if _labels(old) != _labels(new):
        raise attributes.forbidden(f"node {quote(node)} cannot update labels through pod status")
    claims = [value_at(pod or {}, "status", "resourceClaimStatuses") or [] for pod in (old, new)]
    if claims[0] != claims[1]:
        raise attributes.forbidden(f"node {quote(node)} cannot update resource claim statuses")


async def _pod_eviction(
    server: Server, attributes: Attributes, node: str, _new: Tree | None, _old: Tree | None
) -> None:
    key = attributes.target.key
    pod = await _get(server, "pods", key.namespace, key.name)
    if value_at(pod, "spec", "nodeName") != node:
        raise attributes.forbidden(
            f"node {node} can only evict pods with spec.nodeName set to itself"
        )


# The node itself.


async def _node(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if attributes.name != node:
        raise attributes.forbidden(
            f"node {quote(node)} is not allowed to modify node {quote(attributes.name)}"
        )
    if new is None:
        return
    source = value_at(new, "spec", "configSource")
    if old is None:
        if source is not None:
            raise attributes.forbidden(
                f"node {quote(node)} is not allowed to create pods with a non-nil configSource"
            )
    else:
        if source is not None and source != value_at(old, "spec", "configSource"):
            raise attributes.forbidden(
                f"node {quote(node)} is not allowed to update configSource to a new non-nil "
                "configSource"
            )
        taints = [value_at(obj, "spec", "taints") or [] for obj in (old, new)]
        if taints[0] != taints[1]:
            raise attributes.forbidden(f"node {quote(node)} is not allowed to modify taints")
    if labels := _forbidden_labels(_labels(old), _labels(new)):
        names = ", ".join(labels)
        if old is not None:
            raise attributes.forbidden(f"is not allowed to modify labels: {names}")
        raise attributes.forbidden(
            f"node {quote(node)} is not allowed to set the following labels: {names}"
        )


def _labels(tree: Tree | None) -> Mapping[str, str]:
    return value_at(tree or {}, "metadata", "labels") or {}


def _forbidden_labels(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the changed labels that a node must not change, sorted."""
    return sorted(
        label
        for label in old.keys() | new.keys()
        if old.get(label) != new.get(label) and _is_forbidden(label)
    )


def _is_forbidden(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if _is_within(domain, _RESTRICTED):
        return True
    if not (_is_within(domain, "kubernetes.io") or _is_within(domain, "k8s.io")):
        return False
    allowed = any(_is_within(domain, kubelet_domain) for kubelet_domain in _KUBELET_DOMAINS)
    return not (allowed or label in _KUBELET_LABELS)


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


# Objects that belong to the node.


async def _claim(
    _server: Server, attributes: Attributes, _node: str, _new: Tree | None, _old: Tree | None
) -> None:
    raise attributes.forbidden("may only update PVC status")


async def _claim_status(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if _without_reported(new) != _without_reported(old):
        raise attributes.forbidden(
            f"node {quote(node)} is not allowed to update fields other than status.quantity and "
            "status.conditions"
        )


def _without_reported(claim: Tree | None) -> Tree:
    """Return a claim without what its node reports."""
    tree: Tree = copy_tree(claim or {})
    for field in ("resourceVersion", "managedFields"):
        metadata_of(tree).pop(field, None)
    status = tree.get("status") or {}
    for field in ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"):
        status.pop(field, None)
    return tree


async def _token(
    server: Server, attributes: Attributes, node: str, new: Tree | None, _old: Tree | None
) -> None:
    reference = value_at(new or {}, "spec", "boundObjectRef") or {}
    kind, name = (reference.get("apiVersion"), reference.get("kind")), reference.get("name")
    if kind != ("v1", "Pod") or not name:
        raise attributes.forbidden("node requested token not bound to a pod")
    uid = reference.get("uid")
    if not uid:
        raise attributes.forbidden("node requested token with a pod binding without a uid")
    pod = await _get(server, "pods", attributes.target.key.namespace, name)
    if uid != uid_of(pod):
        raise attributes.forbidden(
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The "
            "object might have been deleted and then recreated"
        )
    if value_at(pod, "spec", "nodeName") != node:
        raise attributes.forbidden(
            "node requested token bound to a pod scheduled on a different node"
        )
    await node_audiences.check(server, attributes, pod, new or {})


async def _lease(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if attributes.target.key.namespace != _LEASES:
        raise attributes.forbidden(
            f"can only access leases in the {quote(_LEASES)} system namespace"
        )
    if name_of(new or old or {}) != node:
        raise attributes.forbidden(
            "can only access node lease with the same name as the requesting node"
        )


async def _csi_node(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if name_of(new or old or {}) != node:
        raise attributes.forbidden(
            "can only access CSINode with the same name as the requesting node"
        )


async def _resource_slice(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    verb = {"CREATE": "create", "DELETE": "delete"}.get(attributes.operation)
    if verb and value_at(new or old or {}, "spec", "nodeName") != node:
        raise attributes.forbidden(
            f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
        )


async def _signing_request(
    _server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if new is None or old is not None or value_at(new, "spec", "signerName") not in _SIGNERS:
        return
    try:
        text = base64.b64decode(value_at(new, "spec", "request") or "").decode("latin-1")
        names = pem.subject_values(pem.parse_signing_request(text), pem.COMMON_NAME)
    except ValueError as error:
        raise attributes.forbidden(f"unable to parse csr: {error}") from None
    if names != [f"{PREFIX}{node}"]:
        raise attributes.forbidden(f"can only create a node CSR with CN={PREFIX}{node}")


async def _pod_certificate(
    server: Server, attributes: Attributes, node: str, new: Tree | None, old: Tree | None
) -> None:
    if new is None or old is not None:
        return
    spec = new["spec"]
    requested_node = spec.get("nodeName") or ""
    if requested_node != node:
        raise attributes.forbidden(
            f"PodCertificateRequest.Spec.NodeName={quote(requested_node)}, which is not the "
            f"requesting node {quote(node)}"
        )
    pod = await _get(server, "pods", attributes.target.key.namespace, spec.get("podName") or "")
    expected = {
        "UID": (uid_of(pod), spec.get("podUID")),
        "node": (value_at(pod, "spec", "nodeName"), node),
        "service account": (
            value_at(pod, "spec", "serviceAccountName"),
            spec.get("serviceAccountName"),
        ),
    }
    for field, (present, requested) in expected.items():
        if present != requested:
            raise attributes.forbidden(
                f"PodCertificateRequest for pod {quote(name_of(pod))} contains another {field} "
                "than the pod"
            )
    if is_mirror(pod):
        raise attributes.forbidden(f"pod {quote(name_of(pod))} is a mirror pod")


_Check: TypeAlias = Callable[[Server, Attributes, str, Tree | None, Tree | None], Awaitable[None]]

_CHECKS: Mapping[tuple[str, str], _Check] = {
    ("pods", ""): _pod,
    ("pods", "status"): _pod_status,
    ("pods", "eviction"): _pod_eviction,
    ("nodes", ""): _node,
    ("nodes", "status"): _node,
    ("persistentvolumeclaims", ""): _claim,
    ("persistentvolumeclaims", "status"): _claim_status,
    ("serviceaccounts", "token"): _token,
    ("leases.coordination.k8s.io", ""): _lease,
    ("csinodes.storage.k8s.io", ""): _csi_node,
    ("resourceslices.resource.k8s.io", ""): _resource_slice,
    ("certificatesigningrequests.certificates.k8s.io", ""): _signing_request,
    ("podcertificaterequests.certificates.k8s.io", ""): _pod_certificate,
}
