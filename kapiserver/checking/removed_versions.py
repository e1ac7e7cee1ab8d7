"""Which release removed a version of a kind, and what replaces it.

`api/releases.py` knows the releases that the server emulates. `_EARLIER` has the removals of the
releases before them, as Kubernetes' deprecated API migration guide lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapiserver.api.group import GroupVersion
from kapiserver.api.releases import RELEASES
from kapiserver.api.scheme import Scheme


def _removals(
    minor: int, version: str, kinds: str, replacement: str
) -> dict[tuple[str, str], tuple[int, str]]:
    return {(version, kind): (minor, replacement) for kind in kinds.split()}


_FLOW = "FlowSchema PriorityLevelConfiguration"
_EARLIER: Mapping[tuple[str, str], tuple[int, str]] = {
    **_removals(16, "apps/v1beta1", "Deployment StatefulSet", "apps/v1"),
    **_removals(16, "apps/v1beta2", "DaemonSet Deployment ReplicaSet StatefulSet", "apps/v1"),
    **_removals(16, "extensions/v1beta1", "DaemonSet Deployment ReplicaSet", "apps/v1"),
    **_removals(16, "extensions/v1beta1", "NetworkPolicy", "networking.k8s.io/v1"),
    **_removals(16, "extensions/v1beta1", "PodSecurityPolicy", ""),
    **_removals(22, "extensions/v1beta1", "Ingress", "networking.k8s.io/v1"),
    **_removals(22, "networking.k8s.io/v1beta1", "Ingress IngressClass", "networking.k8s.io/v1"),
    **_removals(
        22,
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
    ),
    **_removals(
        22,
        "apiextensions.k8s.io/v1beta1",
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
    ),
    **_removals(22, "apiregistration.k8s.io/v1beta1", "APIService", "apiregistration.k8s.io/v1"),
    **_removals(22, "authentication.k8s.io/v1beta1", "TokenReview", "authentication.k8s.io/v1"),
    **_removals(
        22,
        "certificates.k8s.io/v1beta1",
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
    ),
    **_removals(22, "coordination.k8s.io/v1beta1", "Lease", "coordination.k8s.io/v1"),
    **_removals(
        22,
        "rbac.authorization.k8s.io/v1beta1",
        "ClusterRole ClusterRoleBinding Role RoleBinding",
        "rbac.authorization.k8s.io/v1",
    ),
    **_removals(22, "scheduling.k8s.io/v1beta1", "PriorityClass", "scheduling.k8s.io/v1"),
    **_removals(
        22,
        "storage.k8s.io/v1beta1",
        "CSIDriver CSINode StorageClass VolumeAttachment",
        "storage.k8s.io/v1",
    ),
    **_removals(25, "autoscaling/v2beta1", "HorizontalPodAutoscaler", "autoscaling/v2"),
    **_removals(25, "batch/v1beta1", "CronJob", "batch/v1"),
    **_removals(25, "discovery.k8s.io/v1beta1", "EndpointSlice", "discovery.k8s.io/v1"),
    **_removals(25, "events.k8s.io/v1beta1", "Event", "events.k8s.io/v1"),
    **_removals(25, "node.k8s.io/v1beta1", "RuntimeClass", "node.k8s.io/v1"),
    **_removals(25, "policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
    **_removals(25, "policy/v1beta1", "PodSecurityPolicy", ""),
    **_removals(26, "autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v2"),
    **_removals(
        26, "flowcontrol.apiserver.k8s.io/v1beta1", _FLOW, "flowcontrol.apiserver.k8s.io/v1"
    ),
    **_removals(27, "storage.k8s.io/v1beta1", "CSIStorageCapacity", "storage.k8s.io/v1"),
    **_removals(
        29, "flowcontrol.apiserver.k8s.io/v1beta2", _FLOW, "flowcontrol.apiserver.k8s.io/v1"
    ),
}
"""The minor of the release 1.x that removed a kind, and the version to use, "" for none."""


def removal_of(scheme: Scheme, version: str, kind: str, minor: int) -> str:
    """Return which release up to 1.x removed the version of a kind, and what to use; "" if none
    did."""
    earlier = _EARLIER.get((version, kind))
    if earlier is not None:
        removed_in, replacement = earlier
    else:
        removed_in = max(
            (
                removed_minor
                for removed_minor in _minors(version, kind, "removed")
                if removed_minor <= minor
            ),
            default=0,
        )
        replacement = _served_version(scheme, version, kind)
    if not removed_in:
        return ""
    return f"Kubernetes 1.{removed_in} removed it" + (f"; use {replacement}" if replacement else "")


def introduction_of(version: str, kind: str, minor: int) -> str:
    """Return which release after 1.x is the first to serve the version of a kind; "" if none is."""
    later = min(
        (added_minor for added_minor in _minors(version, kind, "added") if added_minor > minor),
        default=0,
    )
    return f"Kubernetes 1.{later} is the first to serve it" if later else ""


def _minors(version: str, kind: str, change: str) -> Iterable[int]:
    """Return the minors of the releases that added or removed a version of a kind."""
    group_version = version if "/" in version else f"/{version}"
    paths = {f"{group_version}/{plural}" for plural in _plurals(kind)}
    return (minor for minor, changes in RELEASES.items() if paths & getattr(changes, change))


def _plurals(kind: str) -> Iterable[str]:
    """Return the names that the resource of a kind may have."""
    name = kind.lower()
    return (f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies")


def _served_version(scheme: Scheme, version: str, kind: str) -> str:
    group = GroupVersion.parse(version).group
    for resource in scheme.resources(group):
        if resource.kind == kind:
            return str(GroupVersion(group, resource.versions[0]))
    return ""
