"""The cluster roles of controllers, by the names of their service accounts in kube-system.

Facts of Kubernetes 1.37, by controller_policy.go of plugin/pkg/auth/authorizer/rbac.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.policy_rules import (
    ACCESS_REVIEWS,
    EVENTS,
    GROUP,
    READ,
    rule,
)

CONTROLLER_ROLES: Mapping[str, Sequence[Tree]] = {
    "attachdetach-controller": (
        rule("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        rule(READ, "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("list watch", "core", "pods"),
        EVENTS,
        rule(f"create delete {READ}", "storage.k8s.io", "volumeattachments"),
        rule(READ, "storage.k8s.io", "csidrivers"),
        rule(READ, "storage.k8s.io", "csinodes"),
    ),
    "clusterrole-aggregation-controller": (
        rule(f"escalate patch update {READ}", GROUP, "clusterroles"),
    ),
    "cronjob-controller": (
        rule(f"update {READ}", "batch", "cronjobs"),
        rule(f"create delete patch update {READ}", "batch", "jobs"),
        rule("update", "batch", "cronjobs/status"),
        rule("update", "batch", "cronjobs/finalizers"),
        rule("delete list watch", "core", "pods"),
        EVENTS,
    ),
    "daemon-set-controller": (
        rule(READ, "apps extensions", "daemonsets"),
        rule("update", "apps extensions", "daemonsets/status"),
        rule("update", "apps extensions", "daemonsets/finalizers"),
        rule("list watch", "core", "nodes"),
        rule("create delete list patch watch", "core", "pods"),
        rule("create", "core", "pods/binding"),
        rule(f"create delete patch update {READ}", "apps", "controllerrevisions"),
        EVENTS,
    ),
    "deployment-controller": (
        rule(f"update {READ}", "apps extensions", "deployments"),
        rule("update", "apps extensions", "deployments/status"),
        rule("update", "apps extensions", "deployments/finalizers"),
        rule(f"create delete patch update {READ}", "apps extensions", "replicasets"),
        rule(f"update {READ}", "core", "pods"),
        EVENTS,
    ),
    "disruption-controller": (
        rule(READ, "apps extensions", "deployments"),
        rule(READ, "apps extensions", "replicasets"),
        rule(READ, "core", "replicationcontrollers"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, "apps", "statefulsets"),
        rule("update", "policy", "poddisruptionbudgets/status"),
        rule("patch update", "core", "pods/status"),
        rule("get", "*", "*/scale"),
        EVENTS,
    ),
    "endpoint-controller": (
        rule(READ, "core", "pods services"),
        rule(f"create delete update {READ}", "core", "endpoints"),
        rule("create", "core", "endpoints/restricted"),
        EVENTS,
    ),
    "endpointslice-controller": (
        rule(READ, "core", "nodes pods services"),
        rule("update", "core", "services/finalizers"),
        rule(f"create delete update {READ}", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    "endpointslicemirroring-controller": (
        rule(READ, "core", "endpoints services"),
        rule("update", "core", "services/finalizers"),
        rule("update", "core", "endpoints/finalizers"),
        rule(f"create delete update {READ}", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    "expand-controller": (
        rule(f"patch update {READ}", "core", "persistentvolumes"),
        rule("patch update", "core", "persistentvolumeclaims/status"),
        rule(READ, "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "ephemeral-volume-controller": (
        rule(READ, "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule(f"create {READ}", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "resource-claim-controller": (
        rule(READ, "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule(f"create delete {READ}", "resource.k8s.io", "resourceclaims"),
        rule("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
        rule("patch update", "core", "pods/status"),
        EVENTS,
        rule("patch update", "resource.k8s.io", "resourceclaims/binding"),
    ),
    "device-taint-eviction-controller": (
        rule(f"delete {READ}", "core", "pods"),
        rule("patch update", "core", "pods/status"),
        rule(READ, "resource.k8s.io", "resourceclaims"),
        rule(READ, "resource.k8s.io", "resourceslices"),
        rule(READ, "resource.k8s.io", "deviceclasses"),
        EVENTS,
        rule("patch update", "resource.k8s.io", "devicetaintrules/status"),
        rule(READ, "resource.k8s.io", "devicetaintrules"),
    ),
    "generic-garbage-collector": (
        rule(f"delete patch update {READ}", "*", "*"),
        EVENTS,
    ),
    "horizontal-pod-autoscaler": (
        rule(READ, "autoscaling", "horizontalpodautoscalers"),
        rule("update", "autoscaling", "horizontalpodautoscalers/status"),
        rule("get update", "*", "*/scale"),
        rule("list watch", "core", "pods"),
        rule("list watch", "metrics.k8s.io", "pods"),
        rule(READ, "custom.metrics.k8s.io", "*"),
        rule(READ, "external.metrics.k8s.io", "*"),
        EVENTS,
    ),
    "job-controller": (
        rule(f"patch update {READ}", "batch", "jobs"),
        rule("update", "batch", "jobs/status"),
        rule("update", "batch", "jobs/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        EVENTS,
    ),
    "namespace-controller": (
        rule(f"delete {READ}", "core", "namespaces"),
        rule("update", "core", "namespaces/finalize namespaces/status"),
        rule(f"delete deletecollection {READ}", "*", "*"),
    ),
    "node-controller": (
        rule(f"delete patch update {READ}", "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("patch update", "core", "pods/status"),
        rule(f"delete {READ}", "core", "pods"),
        rule(READ, "coordination.k8s.io", "leases"),
        EVENTS,
    ),
    "persistent-volume-binder": (
        rule(f"create delete update {READ}", "core", "persistentvolumes"),
        rule("update", "core", "persistentvolumes/status"),
        rule(f"update {READ}", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule(f"create delete {READ}", "core", "pods"),
        rule(READ, "storage.k8s.io", "storageclasses"),
        rule("list watch", "core", "nodes"),
        EVENTS,
        rule("watch", "core", "events"),
    ),
    "pod-garbage-collector": (
        rule("delete list watch", "core", "pods"),
        rule(READ, "core", "nodes"),
        rule("patch", "core", "pods/status"),
    ),
    "replicaset-controller": (
        rule(f"update {READ}", "apps extensions", "replicasets"),
        rule("update", "apps extensions", "replicasets/status"),
        rule("update", "apps extensions", "replicasets/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        EVENTS,
    ),
    "replication-controller": (
        rule(f"update {READ}", "core", "replicationcontrollers"),
        rule("update", "core", "replicationcontrollers/status"),
        rule("update", "core", "replicationcontrollers/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        EVENTS,
    ),
    "resourcequota-controller": (
        rule("list watch", "*", "*"),
        rule("update", "core", "resourcequotas/status"),
        EVENTS,
    ),
    "route-controller": (
        rule("list watch", "core", "nodes"),
        rule("patch", "core", "nodes/status"),
        EVENTS,
    ),
    "service-account-controller": (rule("create", "core", "serviceaccounts"), EVENTS),
    "service-controller": (
        rule(READ, "core", "services"),
        rule("patch update", "core", "services/status"),
        rule("list watch", "core", "nodes"),
        EVENTS,
    ),
    "service-cidrs-controller": (
        rule(f"patch update {READ}", "networking.k8s.io", "servicecidrs"),
        rule("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
        rule("patch update", "networking.k8s.io", "servicecidrs/status"),
        rule(READ, "networking.k8s.io", "ipaddresses"),
        EVENTS,
    ),
    "statefulset-controller": (
        rule("list watch", "core", "pods"),
        rule(READ, "apps", "statefulsets"),
        rule("update", "apps", "statefulsets/status"),
        rule("update", "apps", "statefulsets/finalizers"),
        rule("create delete get patch update", "core", "pods"),
        rule(f"create delete patch update {READ}", "apps", "controllerrevisions"),
        rule(f"create {READ}", "core", "persistentvolumeclaims"),
        rule("delete update", "core", "persistentvolumeclaims"),
        rule("update", "core", "pods/finalizers"),
        EVENTS,
    ),
    "ttl-controller": (rule("list patch update watch", "core", "nodes"), EVENTS),
    "certificate-controller": (
        rule(f"delete {READ}", "certificates.k8s.io", "certificatesigningrequests"),
        rule(
            "update", "certificates.k8s.io",
            "certificatesigningrequests/approval certificatesigningrequests/status",
        ),
        rule(
            "approve", "certificates.k8s.io", "signers",
            "kubernetes.io/kube-apiserver-client-kubelet",
        ),
        rule(
            "sign", "certificates.k8s.io", "signers",
            "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
            "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
        ),
        ACCESS_REVIEWS,
        EVENTS,
    ),
    "podcertificaterequestcleaner": (
        rule(f"delete {READ}", "certificates.k8s.io", "podcertificaterequests"),
    ),
    "pvc-protection-controller": (
        rule(f"update {READ}", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule(READ, "core", "pods"),
        EVENTS,
    ),
    "pv-protection-controller": (rule(f"update {READ}", "core", "persistentvolumes"), EVENTS),
    "volumeattributesclass-protection-controller": (
        rule(READ, "core", "persistentvolumeclaims"),
        rule(READ, "core", "persistentvolumes"),
        rule(f"update {READ}", "storage.k8s.io", "volumeattributesclasses"),
        EVENTS,
    ),
    "ttl-after-finished-controller": (rule(f"delete {READ}", "batch", "jobs"), EVENTS),
    "root-ca-cert-publisher": (rule("create update", "core", "configmaps"), EVENTS),
    "kube-apiserver-serving-clustertrustbundle-publisher": (
        rule(
            "attest", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-serving"
        ),
        rule(
            "create delete list update watch", "certificates.k8s.io", "clustertrustbundles"
        ),
        EVENTS,
    ),
    "validatingadmissionpolicy-status-controller": (
        rule(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        rule(
            "get patch update", "admissionregistration.k8s.io",
            "validatingadmissionpolicies/status",
        ),
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": (
        rule("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        rule("delete patch", "core", "secrets"),
    ),
    "storage-version-migrator-controller": (
        rule("list patch", "*", "*"),
        rule("get", "apiextensions.k8s.io", "customresourcedefinitions"),
        rule("patch", "apiextensions.k8s.io", "customresourcedefinitions/status"),
        rule("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
    ),
    "selinux-warning-controller": (
        EVENTS,
        rule(READ, "core", "persistentvolumes"),
        rule(READ, "core", "persistentvolumeclaims"),
        rule(READ, "core", "pods"),
        rule(READ, "storage.k8s.io", "csidrivers"),
    ),
}  # fmt: skip
