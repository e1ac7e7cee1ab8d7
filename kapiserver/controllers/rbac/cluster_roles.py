"""The cluster roles of users and of Kubernetes' programs, which every cluster with RBAC has.

Facts of Kubernetes 1.37, by policy.go of plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.node.rules import NODE_RULES
from kapiserver.apiserver.authorization.policy_rules import (
    ACCESS_REVIEWS,
    EVENTS,
    GROUP,
    READ,
    READ_WRITE,
    TOKEN_REVIEWS,
    WRITE,
    path_rule,
    rule,
)

_PUBLIC_PATHS = "/healthz /livez /readyz /version /version/"
_ISSUER = "/.well-known/openid-configuration /openid/v1/jwks"

AGGREGATED_ROLES = {
    # name: the role that its own rules are aggregated to
    "admin": "",
    "edit": "admin",
    "view": "edit",
}

RULES_BY_AGGREGATE: Mapping[str, Sequence[Tree]] = {
    "admin": (
        rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        rule(READ_WRITE, GROUP, "roles rolebindings"),
    ),
    "edit": (
        rule(
            READ, "core",
            "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
        ),
        rule("impersonate", "core", "serviceaccounts"),
        rule(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        rule("create", "core", "pods/eviction"),
        rule(
            WRITE, "core",
            "configmaps persistentvolumeclaims replicationcontrollers "
            "replicationcontrollers/scale secrets serviceaccounts services services/proxy",
        ),
        rule("create", "core", "serviceaccounts/token"),
        rule(WRITE, "core events.k8s.io", "events"),
        rule(
            WRITE, "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale",
        ),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "cronjobs jobs"),
        rule(
            WRITE, "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses "
            "networkpolicies replicasets replicasets/scale replicationcontrollers/scale",
        ),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        rule(READ_WRITE, "coordination.k8s.io", "leases"),
        rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ),
    "view": (
        rule(
            READ, "core",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
            "services/status",
        ),
        rule(
            READ, "core",
            "bindings limitranges namespaces/status pods/log pods/status "
            "replicationcontrollers/status resourcequotas resourcequotas/status",
        ),
        rule(READ, "core events.k8s.io", "events"),
        rule(READ, "core", "namespaces"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(
            READ, "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status",
        ),
        rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        rule(
            READ, "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status "
            "ingresses ingresses/status networkpolicies replicasets replicasets/scale "
            "replicasets/status replicationcontrollers/scale",
        ),
        rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        rule(
            READ, "resource.k8s.io",
            "resourceclaims resourceclaims/status resourceclaimtemplates",
        ),
    ),
}  # fmt: skip

CLUSTER_ROLES: Mapping[str, Sequence[Tree]] = {
    "cluster-admin": (rule("*", "*", "*"), path_rule("*", "*")),
    "system:discovery": (
        path_rule("get", f"{_PUBLIC_PATHS} /api /api/* /apis /apis/* /openapi /openapi/*"),
    ),
    "system:monitoring": (
        path_rule(
            "get",
            "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
        ),
        path_rule("get", "/flagz"),
        path_rule("get", "/statusz"),
        rule("get", "core", "nodes/metrics"),
    ),
    "system:basic-user": (
        rule(
            "create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"
        ),
        rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:public-info-viewer": (path_rule("get", _PUBLIC_PATHS),),
    "system:service-account-issuer-discovery": (
        path_rule("get", f"{_ISSUER} {'/ '.join(_ISSUER.split())}/"),
    ),
    "system:cluster-trust-bundle-discovery": (
        rule(READ, "certificates.k8s.io", "clustertrustbundles"),
    ),
    "system:heapster": (
        rule(READ, "core", "events namespaces nodes pods"),
        rule(READ, "extensions", "deployments"),
    ),
    "system:node": NODE_RULES,
    "system:node-problem-detector": (
        rule("get", "core", "nodes"),
        rule("patch", "core", "nodes/status"),
        EVENTS,
    ),
    "system:node-proxier": (
        rule("list watch", "core", "endpoints services"),
        rule(READ, "core", "nodes"),
        EVENTS,
        rule("list watch", "networking.k8s.io", "servicecidrs"),
        rule("list watch", "discovery.k8s.io", "endpointslices"),
    ),
    "system:kubelet-api-admin": (
        rule(READ, "core", "nodes"),
        rule("proxy", "core", "nodes"),
        rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        rule("*", "core", "nodes/configz nodes/healthz nodes/pods"),
    ),
    "system:node-bootstrapper": (
        rule(f"create {READ}", "certificates.k8s.io", "certificatesigningrequests"),
    ),
    "system:auth-delegator": (TOKEN_REVIEWS, ACCESS_REVIEWS),
    "system:kube-aggregator": (rule(READ, "core", "endpoints services"),),
    "system:kube-controller-manager": (
        EVENTS,
        rule("create", "coordination.k8s.io", "leases"),
        rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        rule("create", "core", "secrets serviceaccounts"),
        rule("delete", "core", "secrets"),
        rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "core", "secrets serviceaccounts"),
        TOKEN_REVIEWS,
        ACCESS_REVIEWS,
        rule("list watch", "*", "*"),
        rule("create", "core", "serviceaccounts/token"),
    ),
    "system:kube-dns": (rule("list watch", "core", "endpoints services"),),
    "system:persistent-volume-provisioner": (
        rule(f"create delete {READ}", "core", "persistentvolumes"),
        rule(f"update {READ}", "core", "persistentvolumeclaims"),
        rule(READ, "storage.k8s.io", "storageclasses"),
        rule("watch", "core", "events"),
        EVENTS,
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (
        rule("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (
        rule("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient"),
    ),
    "system:volume-scheduler": (
        rule(f"{READ} patch update", "core", "persistentvolumes"),
        rule(READ, "storage.k8s.io", "storageclasses"),
        rule(f"{READ} patch update", "core", "persistentvolumeclaims"),
    ),
    **{
        f"system:certificates.k8s.io:{signer}-approver": (
            rule("approve", "certificates.k8s.io", "signers", f"kubernetes.io/{signer}"),
        )
        for signer in (
            "legacy-unknown", "kubelet-serving", "kube-apiserver-client",
            "kube-apiserver-client-kubelet",
        )
    },
    "system:kube-scheduler": (
        EVENTS,
        rule("create", "coordination.k8s.io", "leases"),
        rule(f"update {READ}", "coordination.k8s.io", "leases", "kube-scheduler"),
        rule(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
        rule(READ, "core", "nodes"),
        rule(f"delete {READ}", "core", "pods"),
        rule("create", "core", "bindings pods/binding"),
        rule("patch update", "core", "pods/status"),
        rule(READ, "core", "replicationcontrollers services"),
        rule(READ, "apps extensions", "replicasets"),
        rule(READ, "apps", "statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, "core", "persistentvolumeclaims persistentvolumes"),
        TOKEN_REVIEWS,
        ACCESS_REVIEWS,
        rule(READ, "storage.k8s.io", "csinodes"),
        rule(READ, "storage.k8s.io", "volumeattachments"),
        rule(READ, "core", "namespaces"),
        rule(READ, "storage.k8s.io", "csidrivers"),
        rule(READ, "storage.k8s.io", "csistoragecapacities"),
        rule(READ, "resource.k8s.io", "deviceclasses"),
        rule(f"{READ} patch update", "resource.k8s.io", "resourceclaims"),
        rule(f"{READ} patch update", "resource.k8s.io", "resourceclaims/status"),
        rule("update", "core", "pods/finalizers"),
        rule(READ, "resource.k8s.io", "resourceslices"),
        rule("create delete", "resource.k8s.io", "resourceclaims"),
        rule(READ, "resource.k8s.io", "devicetaintrules"),
        rule("patch update", "resource.k8s.io", "resourceclaims/binding"),
    ),
}  # fmt: skip
