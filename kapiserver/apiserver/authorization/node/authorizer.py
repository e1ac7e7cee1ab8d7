"""Authorizes nodes: each reads only its own objects, and those that its pods name.

Writes of own objects are allowed here and narrowed by the admission plugin NodeRestriction. Mirrors
plugin/pkg/auth/authorizer/node of Kubernetes with the feature AuthorizeNodeWithSelectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kapiserver.apiserver.authorization.access_review import field_requirements
from kapiserver.apiserver.authorization.node.graph import NodeGraph, Vertex
from kapiserver.apiserver.authorization.node.identity import node_name
from kapiserver.apiserver.authorization.node.rules import NODE_RULES
from kapiserver.apiserver.authorization.rbac.rules import CompiledRules
from kapiserver.apiserver.authorizer import (
    Decision,
    ManagedAuthorizer,
    Rules,
    Verdict,
)
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)
_LEASES = "kube-node-lease"
_READS = ("get", "list", "watch")
_WRITES = ("update", "patch")
_OWN_VERBS = ("get", "create", "update", "patch", "delete")


class NodeAuthorizer(ManagedAuthorizer):
    """Allows nodes what they need. It never denies, and has no opinion on other users."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._rules = CompiledRules(NODE_RULES)

    async def start(self) -> None:
        """Subscribe to the objects of nodes; return when all are known. Raises StorageError."""
        await self._graph.start()

    async def stop(self) -> None:
        """Cancel the subscriptions. Idempotent."""
        self._graph.stop()

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Allow a node what concerns it, and what every node may do."""
        node = node_name(user)
        if node is None:
            return _NO_OPINION
        if not node:
            return _no_opinion(f'unknown node for user "{user.name}"')
        check = _CHECKS.get((info.version.group, info.resource))
        if check is not None:
            return check(self, node, info)
        return _ALLOW if self._rules.allows(info) else _NO_OPINION

    async def rules_for(self, user: User, _namespace: str) -> Rules:
        """Return no rules: the rights of a node cannot be listed."""
        if node_name(user) is None:
            return Rules()
        return Rules(incomplete=True, error="node authorizer does not support user rule resolution")

    def authorize_related(self, node: str, info: RequestInfo) -> Decision:
        """Allow a request on one object that belongs to the node."""
        if not info.name:
            return _no_opinion("No Object name found")
        if self._graph.belongs(Vertex(info.resource, info.namespace, info.name), node):
            return _ALLOW
        return _no_opinion(f"no relationship found between node '{node}' and this object")


_Check: TypeAlias = Callable[[NodeAuthorizer, str, RequestInfo], Decision]


def _no_opinion(reason: str) -> Decision:
    return Decision(verdict=Verdict.NO_OPINION, reason=reason)


def _selects_node(info: RequestInfo, field: str, node: str) -> bool:
    term = {"key": field, "operator": "In", "values": [node]}
    return term in field_requirements(info)


def _read(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    """Secrets and config maps: read one of them, also by a list that selects its name."""
    if info.verb not in _READS:
        return _no_opinion("can only read resources of this type")
    if info.subresource:
        return _no_opinion("cannot read subresource")
    if not info.namespace:
        return _no_opinion("can only read namespaced object of this type")
    return authorizer.authorize_related(node, info)


def _get(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.verb != "get":
        return _no_opinion("can only get individual resources of this type")
    if info.subresource:
        return _no_opinion("cannot get subresource")
    return authorizer.authorize_related(node, info)


def _claim(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.subresource != "status":
        return _get(authorizer, node, info)
    if info.verb not in _WRITES:
        return _no_opinion("can only get/update/patch this type")
    return authorizer.authorize_related(node, info)


def _service_account(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.verb == "get" and not info.subresource:
        return authorizer.authorize_related(node, info)
    if info.verb != "create" or not info.name:
        return _no_opinion("can only create tokens for individual service accounts")
    if info.subresource != "token":
        return _no_opinion("can only create token subresource of serviceaccount")
    return authorizer.authorize_related(node, info)


def _lease(_authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.verb not in _OWN_VERBS:
        return _no_opinion("can only get, create, update, patch, or delete a node lease")
    if info.namespace != _LEASES:
        return _no_opinion(f'can only access leases in the "{_LEASES}" system namespace')
    # The name of a new object is unknown here; NodeRestriction checks it.
    if info.verb != "create" and info.name != node:
        return _no_opinion("can only access node lease with the same name as the requesting node")
    return _ALLOW


def _csi_node(_authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.verb not in _OWN_VERBS:
        return _no_opinion("can only get, create, update, patch, or delete a CSINode")
    if info.subresource:
        return _no_opinion("cannot authorize CSINode subresources")
    if info.verb != "create" and info.name != node:
        return _no_opinion("can only access CSINode with the same name as the requesting node")
    return _ALLOW


def _resource_slice(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.subresource:
        return _no_opinion("cannot authorize ResourceSlice subresources")
    if info.verb == "create":
        return _ALLOW  # NodeRestriction checks the node
    if info.verb in ("get", "update", "patch", "delete"):
        return authorizer.authorize_related(node, info)
    if info.verb not in ("watch", "list", "deletecollection"):
        return _no_opinion(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, "
            "update, patch, delete, deletecollection"
        )
    if _selects_node(info, "spec.nodeName", node):
        return _ALLOW
    return _no_opinion(
        "can only list/watch/deletecollection resourceslices with nodeName field selector"
    )


def _node(_authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.subresource == "status":
        return _ALLOW if info.verb in _WRITES else _NO_OPINION
    if info.subresource or info.verb not in ("create", *_WRITES, *_READS):
        return _NO_OPINION
    if info.verb not in _READS or info.name == node:
        return _ALLOW
    if not info.name:
        return _no_opinion(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no_opinion(f"node '{node}' cannot read '{info.name}', only its own Node object")


def _pod(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.subresource:
        verbs = {"status": _WRITES, "eviction": ("create",)}.get(info.subresource, ())
        return _ALLOW if info.verb in verbs else _NO_OPINION
    if info.verb == "get":
        return _get(authorizer, node, info)
    if info.verb in ("list", "watch"):
        if _selects_node(info, "spec.nodeName", node):
            return _ALLOW
        if info.name:
            return authorizer.authorize_related(node, info)
        return _no_opinion("can only list/watch pods with spec.nodeName field selector")
    return _ALLOW if info.verb in ("create", "delete") else _NO_OPINION


def _certificate_request(authorizer: NodeAuthorizer, node: str, info: RequestInfo) -> Decision:
    if info.subresource:
        return _no_opinion("nodes may not access the subresources of a PodCertificateRequest")
    if info.verb == "create":
        return _ALLOW  # NodeRestriction checks the node and the pod
    if info.verb == "get":
        return authorizer.authorize_related(node, info)
    if info.verb in ("list", "watch"):
        if _selects_node(info, "spec.nodeName", node):
            return _ALLOW
        return _no_opinion(
            "can only list/watch podcertificaterequests with nodeName field selector"
        )
    return _no_opinion("can only create, get, list and watch podcertificaterequests")


_CHECKS: Mapping[tuple[str, str], _Check] = {
    ("", "secrets"): _read,
    ("", "configmaps"): _read,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _get,
    ("", "serviceaccounts"): _service_account,
    ("", "nodes"): _node,
    ("", "pods"): _pod,
    ("storage.k8s.io", "volumeattachments"): _get,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceclaims"): _get,
    ("resource.k8s.io", "resourceslices"): _resource_slice,
    ("coordination.k8s.io", "leases"): _lease,
    ("certificates.k8s.io", "podcertificaterequests"): _certificate_request,
}
"""The resources whose objects belong to nodes; the rules of all nodes decide on others."""
