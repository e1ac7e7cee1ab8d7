"""The admission plugins in the order in which they run, and the writes that each handles.

A plugin is a module with `admit`, `validate` or both (see Hooks). It is imported with the first
write that it handles (see `media_types.py` on late loading). The order is that of kube-apiserver's
AllOrderedPlugins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kapiserver.apiserver.context import Hook, PluginChain


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of one plugin.

    admit       may change the object, before it is prepared
    validate    checks the object after the strategy has prepared and validated it
    """

    admit: Hook | None = None
    validate: Hook | None = None


def _load_always_pull_images() -> Hooks:
    from kapiserver.apiserver.admission.plugins import always_pull_images

    return Hooks(admit=always_pull_images.admit)


def _load_cluster_trust_bundle_attest() -> Hooks:
    from kapiserver.apiserver.admission.plugins import cluster_trust_bundle_attest

    return Hooks(validate=cluster_trust_bundle_attest.validate)


def _load_certificate_approval() -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_approval

    return Hooks(validate=certificate_approval.validate)


def _load_certificate_signing() -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_signing

    return Hooks(validate=certificate_signing.validate)


def _load_certificate_subject_restriction() -> Hooks:
    from kapiserver.apiserver.admission.plugins import certificate_subject_restriction

    return Hooks(validate=certificate_subject_restriction.validate)


def _load_default_class() -> Hooks:
    from kapiserver.apiserver.admission.plugins import default_class

    return Hooks(admit=default_class.admit)


def _load_default_toleration_seconds() -> Hooks:
    from kapiserver.apiserver.admission.plugins import default_toleration_seconds

    return Hooks(admit=default_toleration_seconds.admit)


def _load_deny_service_external_ips() -> Hooks:
    from kapiserver.apiserver.admission.plugins import deny_service_external_ips

    return Hooks(validate=deny_service_external_ips.validate)


def _load_limit_ranger() -> Hooks:
    from kapiserver.apiserver.admission.plugins import limit_ranger

    return Hooks(admit=limit_ranger.admit, validate=limit_ranger.validate)


def _load_namespace_lifecycle() -> Hooks:
    from kapiserver.apiserver.admission.plugins import namespace_lifecycle

    return Hooks(admit=namespace_lifecycle.admit)


def _load_node_restriction() -> Hooks:
    from kapiserver.apiserver.admission.plugins import node_restriction

    return Hooks(admit=node_restriction.admit)


def _load_persistent_volume_claim_resize() -> Hooks:
    from kapiserver.apiserver.admission.plugins import persistent_volume_claim_resize

    return Hooks(validate=persistent_volume_claim_resize.validate)


def _load_pod_security() -> Hooks:
    from kapiserver.apiserver.admission.plugins import pod_security

    return Hooks(validate=pod_security.validate)


def _load_priority() -> Hooks:
    from kapiserver.apiserver.admission.plugins import priority

    return Hooks(admit=priority.admit, validate=priority.validate)


def _load_resource_quota() -> Hooks:
    from kapiserver.apiserver.admission.plugins import resource_quota

    return Hooks(validate=resource_quota.validate)


def _load_runtime_class() -> Hooks:
    from kapiserver.apiserver.admission.plugins import runtime_class

    return Hooks(admit=runtime_class.admit, validate=runtime_class.validate)


def _load_service_account() -> Hooks:
    from kapiserver.apiserver.admission.plugins import service_account

    return Hooks(admit=service_account.admit, validate=service_account.validate)


def _load_storage_object_in_use_protection() -> Hooks:
    from kapiserver.apiserver.admission.plugins import storage_object_in_use_protection

    return Hooks(admit=storage_object_in_use_protection.admit)


def _load_taint_nodes_by_condition() -> Hooks:
    from kapiserver.apiserver.admission.plugins import taint_nodes_by_condition

    return Hooks(admit=taint_nodes_by_condition.admit)


CREATE = ("CREATE",)
UPDATE = ("UPDATE",)
WRITE = ("CREATE", "UPDATE")
ANY = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One plugin.

    resources           qualified names such as `ingresses.networking.k8s.io` or
                        `pods/ephemeralcontainers`; empty for all resources
    enabled_by_default  whether it runs unless --disable-admission-plugins names it
    """

    name: str
    load: Callable[[], Hooks]
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ANY
    enabled_by_default: bool = True


_CSR = "certificatesigningrequests.certificates.k8s.io"

PLUGINS = (
    # First: a write into a terminating namespace needs no other plugin.
    Plugin(name="NamespaceLifecycle", load=_load_namespace_lifecycle),
    # Before ResourceQuota: it sets the requests and limits that are counted.
    Plugin(
        name="LimitRanger",
        load=_load_limit_ranger,
        resources=("pods", "pods/resize", "persistentvolumeclaims"),
        operations=WRITE,
    ),
    Plugin(
        name="ServiceAccount",
        load=_load_service_account,
        resources=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
    ),
    Plugin(
        name="NodeRestriction",
        load=_load_node_restriction,
        resources=(
            "csinodes.storage.k8s.io",
            "leases.coordination.k8s.io",
            "nodes",
            "nodes/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "podcertificaterequests.certificates.k8s.io",
            "pods",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/resize",
            "pods/status",
            "resourceslices.resource.k8s.io",
            "serviceaccounts/token",
            _CSR,
        ),
        enabled_by_default=False,
    ),
    Plugin(
        name="TaintNodesByCondition",
        load=_load_taint_nodes_by_condition,
        resources=("nodes",),
        operations=CREATE,
    ),
    Plugin(
        name="AlwaysPullImages",
        load=_load_always_pull_images,
        resources=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="PodSecurity",
        load=_load_pod_security,
        resources=(
            "cronjobs.batch",
            "daemonsets.apps",
            "deployments.apps",
            "jobs.batch",
            "namespaces",
            "pods",
            "pods/ephemeralcontainers",
            "podtemplates",
            "replicasets.apps",
            "replicationcontrollers",
            "statefulsets.apps",
        ),
        operations=WRITE,
    ),
    Plugin(
        name="Priority",
        load=_load_priority,
        resources=("pods", "priorityclasses.scheduling.k8s.io"),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultTolerationSeconds",
        load=_load_default_toleration_seconds,
        resources=("pods",),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultStorageClass",
        load=_load_default_class,
        resources=("persistentvolumeclaims",),
        operations=CREATE,
    ),
    Plugin(
        name="StorageObjectInUseProtection",
        load=_load_storage_object_in_use_protection,
        resources=(
            "persistentvolumeclaims",
            "persistentvolumes",
            "volumeattributesclasses.storage.k8s.io",
        ),
        operations=CREATE,
    ),
    Plugin(
        name="PersistentVolumeClaimResize",
        load=_load_persistent_volume_claim_resize,
        resources=("persistentvolumeclaims",),
        operations=UPDATE,
    ),
    # After plugins that may set the class, before ResourceQuota, which counts the overhead.
    Plugin(name="RuntimeClass", load=_load_runtime_class, resources=("pods",), operations=CREATE),
    Plugin(
        name="CertificateApproval",
        load=_load_certificate_approval,
        resources=(f"{_CSR}/approval",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSigning",
        load=_load_certificate_signing,
        resources=(f"{_CSR}/status",),
        operations=UPDATE,
    ),
    Plugin(
        name="ClusterTrustBundleAttest",
        load=_load_cluster_trust_bundle_attest,
        resources=("clustertrustbundles.certificates.k8s.io",),
        operations=WRITE,
    ),
    Plugin(
        name="CertificateSubjectRestriction",
        load=_load_certificate_subject_restriction,
        resources=(_CSR,),
        operations=CREATE,
    ),
    Plugin(
        name="DefaultIngressClass",
        load=_load_default_class,
        resources=("ingresses.networking.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="DenyServiceExternalIPs",
        load=_load_deny_service_external_ips,
        resources=("services",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    # Last: a write that another plugin refuses is not counted.
    Plugin(name="ResourceQuota", load=_load_resource_quota, operations=CREATE),
    Plugin(
        name="ResourceQuota",
        load=_load_resource_quota,
        resources=(
            "persistentvolumeclaims",
            "pods/resize",
            "resourceclaims.resource.k8s.io",
            "services",
        ),
        operations=UPDATE,
    ),
)


class AdmissionPlugins:
    """The enabled plugins of one server, in order.

    plugins     all plugins, in order
    enable      names of plugins to run beside those enabled by default
    disable     names of plugins not to run, unless `enable` has them

    Raises ValueError for an unknown name.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin] = PLUGINS,
        *,
        enable: Sequence[str] = (),
        disable: Sequence[str] = (),
    ) -> None:
        names = {plugin.name for plugin in plugins}
        unknown = [name for name in (*enable, *disable) if name not in names | _NOT_IMPLEMENTED]
        if unknown:
            raise ValueError(f"unknown admission plugins: {', '.join(unknown)}")
        self.enabled = tuple(
            plugin
            for plugin in plugins
            if plugin.name in enable or (plugin.enabled_by_default and plugin.name not in disable)
        )
        self.chain = functools.lru_cache(maxsize=1024)(self._chain)
        """Returns the plugins for a qualified resource (with its subresource) and an operation."""

    def _chain(self, resource: str, operation: str) -> PluginChain:
        hooks = [
            (plugin.name, plugin.load())
            for plugin in self.enabled
            if operation in plugin.operations
            and (not plugin.resources or resource in plugin.resources)
        ]
        return PluginChain(
            admit=tuple((name, each.admit) for name, each in hooks if each.admit is not None),
            validate=tuple(
                (name, each.validate) for name, each in hooks if each.validate is not None
            ),
        )


_NOT_IMPLEMENTED = frozenset(
    (
        "AlwaysAdmit", "AlwaysDeny", "EventRateLimit",
        "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceAutoProvision",
        "NamespaceExists", "NodeDeclaredFeatureValidator",
        "OwnerReferencesPermissionEnforcement", "PodNodeSelector",
        "PodTolerationRestriction", "PodTopologyLabels",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
    )
)  # fmt: skip
"""Plugins of kube-apiserver that are not implemented; flags may name them, without effect."""
