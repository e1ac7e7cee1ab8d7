"""The admission plugins, in the order in which a write meets them, and on what each looks.

A plugin is a module with `admit` (may change the object, before it is prepared), `validate` (looks
at it when it keeps to its kind's rules) or both; it is loaded with the first write that it is for.
The order is that of kube-apiserver's AllOrderedPlugins.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request import Warnings
from kapiserver.apiserver.target import Target

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What admission knows of a request; `name` is empty where the server still makes one."""

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    name: str
    dry_run: bool = False

    def forbidden(self, reason: str) -> Forbidden:
        """The error that refuses the write."""
        resource = self.target.resource
        name = self.name or "Unknown"
        return Forbidden(reason, resource=resource.name, group=resource.group, name=name)


Look: TypeAlias = Callable[[Server, Attributes, Tree | None, Tree | None], Awaitable[None]]
"""(server, attributes, new, old); raises to refuse."""

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
    module: str
    on: tuple[str, ...] = ()
    operations: tuple[str, ...] = ANY
    standard: bool = True


_CSR = "certificatesigningrequests.certificates.k8s.io"

PLUGINS = (
    # First: nothing else is asked about what is going away.
    Plugin(name="NamespaceLifecycle", module="namespace_lifecycle"),
    # Before what counts resources: it fills them in.
    Plugin(
        name="LimitRanger",
        module="limit_ranger",
        on=("pods", "pods/resize", "persistentvolumeclaims"),
        operations=WRITE,
    ),
    Plugin(
        name="ServiceAccount",
        module="service_account",
        on=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
    ),
    Plugin(
        name="TaintNodesByCondition",
        module="taint_nodes_by_condition",
        on=("nodes",),
        operations=CREATE,
    ),
    Plugin(
        name="AlwaysPullImages",
        module="always_pull_images",
        on=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
        standard=False,
    ),
    Plugin(
        name="PodSecurity",
        module="pod_security",
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
        module="priority",
        on=("pods", "priorityclasses.scheduling.k8s.io"),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultTolerationSeconds",
        module="default_toleration_seconds",
        on=("pods",),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultStorageClass",
        module="default_class",
        on=("persistentvolumeclaims",),
        operations=CREATE,
    ),
    Plugin(
        name="StorageObjectInUseProtection",
        module="storage_object_in_use_protection",
        on=(
            "persistentvolumeclaims",
            "persistentvolumes",
            "volumeattributesclasses.storage.k8s.io",
        ),
        operations=CREATE,
    ),
    Plugin(
        name="PersistentVolumeClaimResize",
        module="persistent_volume_claim_resize",
        on=("persistentvolumeclaims",),
        operations=UPDATE,
    ),
    # After those that may set the class, before what counts the overhead.
    Plugin(name="RuntimeClass", module="runtime_class", on=("pods",), operations=CREATE),
    Plugin(
        name="CertificateApproval",
        module="certificate_approval",
        on=(f"{_CSR}/approval",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSigning",
        module="certificate_signing",
        on=(f"{_CSR}/status",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSubjectRestriction",
        module="certificate_subject_restriction",
        on=(_CSR,),
        operations=CREATE,
    ),
    Plugin(
        name="DefaultIngressClass",
        module="default_class",
        on=("ingresses.networking.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="DenyServiceExternalIPs",
        module="deny_service_external_ips",
        on=("services",),
        operations=WRITE,
        standard=False,
    ),
    # Last: what others refuse is not counted.
    Plugin(name="ResourceQuota", module="resource_quota", operations=CREATE),
    Plugin(
        name="ResourceQuota",
        module="resource_quota",
        on=(
            "persistentvolumeclaims",
            "pods/resize",
            "resourceclaims.resource.k8s.io",
            "services",
        ),
        operations=UPDATE,
    ),
)


@dataclass(frozen=True, slots=True)
class Chain:
    """What looks at one operation on one resource."""

    admit: tuple[Look, ...]
    validate: tuple[Look, ...]


@functools.lru_cache(maxsize=64)
def enabled(on: tuple[str, ...], off: tuple[str, ...]) -> frozenset[str]:
    """The names of the plugins that are on. Raises ValueError for one that is unknown."""
    known = {plugin.name for plugin in PLUGINS}
    unknown = [name for name in (*on, *off) if name not in known | _ELSEWHERE]
    if unknown:
        raise ValueError(f"unknown admission plugins: {', '.join(unknown)}")
    standard = {plugin.name for plugin in PLUGINS if plugin.standard}
    return frozenset((standard - set(off)) | (set(on) & known))


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


@functools.lru_cache(maxsize=1024)
def chain(names: frozenset[str], resource: str, operation: str) -> Chain:
    """What looks; `resource` is qualified, with its subresource."""
    modules = [
        importlib.import_module(f"{__name__}.{plugin.module}")
        for plugin in PLUGINS
        if plugin.name in names
        and operation in plugin.operations
        and (not plugin.on or resource in plugin.on)
    ]
    return Chain(
        tuple(cast(Look, one.admit) for one in modules if hasattr(one, "admit")),
        tuple(cast(Look, one.validate) for one in modules if hasattr(one, "validate")),
    )
