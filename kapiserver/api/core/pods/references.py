"""The objects that a pod or a persistent volume names: secrets, config maps, claims.

Mirrors pkg/api/v1/pod/util.go and pkg/api/v1/persistentvolume/util.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.types import Tree

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUME_SECRETS = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("secret", "secretName"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)
_PERSISTENT_SECRETS = (
    # The source and its reference. Kubelets need no secrets of controllers.
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("csi", "nodeStageSecretRef"),
    ("csi", "nodeExpandSecretRef"),
)


def secret_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the secrets that a pod uses, in its namespace."""
    for reference in _items(pod, "spec", "imagePullSecrets"):
        yield from _name(reference, "name")
    yield from _environment_names(pod, "secretRef", "secretKeyRef")
    for volume in _items(pod, "spec", "volumes"):
        for path in _VOLUME_SECRETS:
            yield from _name(volume, *path)
        for source in _items(volume, "projected", "sources"):
            yield from _name(source, "secret", "name")


def config_map_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the config maps that a pod uses, in its namespace."""
    yield from _environment_names(pod, "configMapRef", "configMapKeyRef")
    for volume in _items(pod, "spec", "volumes"):
        yield from _name(volume, "configMap", "name")
        for source in _items(volume, "projected", "sources"):
            yield from _name(source, "configMap", "name")


def claim_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the persistent volume claims of a pod's volumes."""
    for volume in _items(pod, "spec", "volumes"):
        yield from _name(volume, "persistentVolumeClaim", "claimName")
        if volume.get("ephemeral") is not None:
            yield f"{name_of(pod)}-{volume['name']}"


def resource_claim_names(pod: Tree) -> Iterator[str]:
    """Yield the names of the resource claims of a pod, also of those made from templates."""
    statuses = {
        status.get("name"): status.get("resourceClaimName")
        for status in _items(pod, "status", "resourceClaimStatuses")
    }
    for claim in _items(pod, "spec", "resourceClaims"):
        name = claim.get("resourceClaimName") or statuses.get(claim.get("name"))
        if name:
            yield name
    yield from _name(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")


def is_mirror(pod: Tree) -> bool:
    """Whether a kubelet made the pod for a static pod of its node."""
    return MIRROR in (value_at(pod, "metadata", "annotations") or {})


def volume_secrets(volume: Tree) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of the secrets that kubelets need for a persistent volume."""
    spec = volume["spec"]
    namespace = value_at(spec, "claimRef", "namespace") or ""
    if name := value_at(spec, "azureFile", "secretName"):
        yield value_at(spec, "azureFile", "secretNamespace") or namespace, name
    for source, field in _PERSISTENT_SECRETS:
        reference = value_at(spec, source, field) or {}
        if reference.get("name"):
            yield reference.get("namespace") or namespace, reference["name"]


def _environment_names(pod: Tree, all_keys: str, one_key: str) -> Iterator[str]:
    for kind in _CONTAINERS:
        for container in _items(pod, "spec", kind):
            for source in _items(container, "envFrom"):
                yield from _name(source, all_keys, "name")
            for variable in _items(container, "env"):
                yield from _name(variable, "valueFrom", one_key, "name")


def _items(tree: Tree, *path: str) -> Any:
    return value_at(tree, *path) or ()


def _name(tree: Tree, *path: str) -> Iterator[str]:
    name = value_at(tree, *path)
    if name:
        yield name
