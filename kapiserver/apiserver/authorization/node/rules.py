"""The rules of every node: the cluster role system:node of Kubernetes 1.37.

The node authorizer narrows the rules for objects that belong to a node. Mirrors NodeRules in
plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.policy_rules import EVENTS, READ, TOKEN_REVIEWS, rule

NODE_RULES: Sequence[Tree] = (
    TOKEN_REVIEWS,
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    rule(READ, "core", "services"),
    rule(f"create {READ}", "core", "nodes"),
    rule("update patch", "core", "nodes/status"),
    rule("update patch", "core", "nodes"),
    EVENTS,
    rule(READ, "core", "pods"),
    rule("create delete", "core", "pods"),
    rule("update patch", "core", "pods/status"),
    rule("create", "core", "pods/eviction"),
    rule(READ, "core", "configmaps secrets"),
    rule("get", "core", "persistentvolumeclaims persistentvolumes"),
    rule("get", "core", "endpoints"),
    rule(f"create {READ}", "certificates.k8s.io", "certificatesigningrequests"),
    rule(f"create {READ}", "certificates.k8s.io", "podcertificaterequests"),
    rule("create delete get patch update", "coordination.k8s.io", "leases"),
    rule("get", "storage.k8s.io", "volumeattachments"),
    rule("create", "core", "serviceaccounts/token"),
    rule("get patch update", "core", "persistentvolumeclaims/status"),
    rule(READ, "storage.k8s.io", "csidrivers"),
    rule("create delete get patch update", "storage.k8s.io", "csinodes"),
    rule(READ, "node.k8s.io", "runtimeclasses"),
    rule("get", "resource.k8s.io", "resourceclaims"),
    rule("deletecollection", "resource.k8s.io", "resourceslices"),
    rule(READ, "certificates.k8s.io", "clustertrustbundles"),
    rule("get", "core", "serviceaccounts"),
)
