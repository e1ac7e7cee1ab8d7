"""The admission plugins, in the order in which a write meets them, and on what each looks.

A plugin is a module with `admit`, `validate` or both (see Hooks). It loads with the first write
that it looks at (see `media_types.py` on late loading). The order is that of kube-apiserver's
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
    validate    looks at the object once it is prepared and valid
    """

    admit: Hook | None = None
    validate: Hook | None = None


def _load_always_pull_images() -> Hooks:
    from kapiserver.apiserver.admission.plugins import always_pull_images

    return Hooks(admit=always_pull_images.admit)


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

    on          resources, qualified (`ingresses.networking.k8s.io`), with a subresource where the
                plugin is for that; empty: every one
    standard    whether it is on unless turned off
    """

    name: str
    load: Callable[[], Hooks]
    on: tuple[str, ...] = ()
    operations: tuple[str, ...] = ANY
    standard: bool = True


_CSR = "certificatesigningrequests.certificates.k8s.io"

PLUGINS = (
    # First: nothing else is asked about what is going away.
    Plugin(name="NamespaceLifecycle", load=_load_namespace_lifecycle),
    # Before what counts resources: it fills them in.
    Plugin(
        name="LimitRanger",
        load=_load_limit_ranger,
        on=("pods", "pods/resize", "persistentvolumeclaims"),
        operations=WRITE,
    ),
    Plugin(
        name="ServiceAccount",
        load=_load_service_account,
        on=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
    ),
    Plugin(
        name="TaintNodesByCondition",
        load=_load_taint_nodes_by_condition,
        on=("nodes",),
        operations=CREATE,
    ),
    Plugin(
        name="AlwaysPullImages",
        load=_load_always_pull_images,
        on=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
        standard=False,
    ),
    Plugin(
        name="PodSecurity",
        load=_load_pod_security,
        on=(
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
        on=("pods", "priorityclasses.scheduling.k8s.io"),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultTolerationSeconds",
        load=_load_default_toleration_seconds,
        on=("pods",),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultStorageClass",
        load=_load_default_class,
        on=("persistentvolumeclaims",),
        operations=CREATE,
    ),
    Plugin(
        name="StorageObjectInUseProtection",
        load=_load_storage_object_in_use_protection,
        on=(
            "persistentvolumeclaims",
            "persistentvolumes",
            "volumeattributesclasses.storage.k8s.io",
        ),
        operations=CREATE,
    ),
    Plugin(
        name="PersistentVolumeClaimResize",
        load=_load_persistent_volume_claim_resize,
        on=("persistentvolumeclaims",),
        operations=UPDATE,
    ),
    # After those that may set the class, before what counts the overhead.
    Plugin(name="RuntimeClass", load=_load_runtime_class, on=("pods",), operations=CREATE),
    Plugin(
        name="CertificateApproval",
        load=_load_certificate_approval,
        on=(f"{_CSR}/approval",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSigning",
        load=_load_certificate_signing,
        on=(f"{_CSR}/status",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSubjectRestriction",
        load=_load_certificate_subject_restriction,
        on=(_CSR,),
        operations=CREATE,
    ),
    Plugin(
        name="DefaultIngressClass",
        load=_load_default_class,
        on=("ingresses.networking.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="DenyServiceExternalIPs",
        load=_load_deny_service_external_ips,
        on=("services",),
        operations=WRITE,
        standard=False,
    ),
    # Last: what others refuse is not counted.
    Plugin(name="ResourceQuota", load=_load_resource_quota, operations=CREATE),
    Plugin(
        name="ResourceQuota",
        load=_load_resource_quota,
        on=(
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

    plugins     all that there are
    enable      names to enable beside the standard ones; `disable` names to leave out

    Raises ValueError for an unknown name.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin] = PLUGINS,
        *,
        enable: Sequence[str] = (),
        disable: Sequence[str] = (),
    ) -> None:
        known = {plugin.name for plugin in plugins}
        unknown = [name for name in (*enable, *disable) if name not in known | _ELSEWHERE]
        if unknown:
            raise ValueError(f"unknown admission plugins: {', '.join(unknown)}")
        self.enabled = tuple(
            plugin
            for plugin in plugins
            if plugin.name in enable or (plugin.standard and plugin.name not in disable)
        )
        self.chain = functools.lru_cache(maxsize=1024)(self._chain)
        """The plugins for a qualified resource, with its subresource, and an operation."""

    def _chain(self, resource: str, operation: str) -> PluginChain:
        hooks = [
            (plugin.name, plugin.load())
            for plugin in self.enabled
            if operation in plugin.operations and (not plugin.on or resource in plugin.on)
        ]
        return PluginChain(
            admit=tuple((name, each.admit) for name, each in hooks if each.admit is not None),
            validate=tuple(
                (name, each.validate) for name, each in hooks if each.validate is not None
            ),
        )


_ELSEWHERE = frozenset(
    (
        "AlwaysAdmit", "AlwaysDeny", "ClusterTrustBundleAttest", "EventRateLimit",
        "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceAutoProvision",
        "NamespaceExists", "NodeDeclaredFeatureValidator", "NodeRestriction",
        "OwnerReferencesPermissionEnforcement", "PodNodeSelector",
        "PodTolerationRestriction", "PodTopologyLabels",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
    )
)  # fmt: skip
"""Plugins of kube-apiserver that are not here: naming one is no mistake, and has no effect."""
