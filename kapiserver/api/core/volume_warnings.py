"""Warnings about valid persistent volumes and claims: deprecated and removed features.

Mirrors pkg/api/persistentvolume and pkg/api/persistentvolumeclaim of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.validation.persistent_volume_claims import CLASS_ANNOTATION
from kapiserver.api.core.validation.persistent_volumes import MOUNT_ANNOTATION
from kapiserver.api.core.warnings import DEPRECATED_NODE_LABELS
from kapiserver.api.errors import Path
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

_ANNOTATIONS = Path("metadata") / "annotations"
_SPEC = Path("spec")
DEPRECATED_VOLUMES = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def warnings_for_persistent_volume(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a volume."""
    yield from _class_annotation(obj)
    if MOUNT_ANNOTATION in annotations_of(obj):
        field_path = _ANNOTATIONS[MOUNT_ANNOTATION]
        yield f'{field_path}: deprecated since v1.31; use "mountOptions" attribute instead'
    spec = obj.get("spec") or {}
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            f"{_SPEC / 'persistentVolumeReclaimPolicy'}: The Recycle reclaim policy is "
            "deprecated. Instead, the recommended approach is to use dynamic provisioning."
        )
    terms = value_at(spec, "nodeAffinity", "required", "nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        field_path = (_SPEC / "nodeAffinity" / "required" / "nodeSelectorTerms")[index]
        yield from warnings_for_node_selector_term(term, field_path)
    for name, warning in DEPRECATED_VOLUMES.items():
        if spec.get(name) is not None:
            yield f"{_SPEC / name}: {warning}"


def _class_annotation(obj: Tree) -> Iterator[str]:
    if CLASS_ANNOTATION in annotations_of(obj):
        annotation_path = _ANNOTATIONS[CLASS_ANNOTATION]
        yield f'{annotation_path}: deprecated since v1.8; use "storageClassName" attribute instead'


def warnings_for_node_selector_term(term: Tree, path: Path) -> Iterator[str]:
    """Yield the warnings about deprecated node labels in a term."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        warning = DEPRECATED_NODE_LABELS.get(requirement.get("key") or "")
        if warning:
            key_path = (path / "matchExpressions")[index] / "key"
            yield f"{key_path}: {requirement['key']} is {warning}"


def warnings_for_persistent_volume_claim(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a claim."""
    yield from _class_annotation(obj)
    yield from warnings_for_claim_spec(obj.get("spec") or {}, _SPEC)


def warnings_for_claim_spec(spec: Tree, path: Path) -> Iterator[str]:
    """Yield the warnings about the spec of a claim or of a claim template."""
    for kind in ("requests", "limits"):
        quantity = value_at(spec, "resources", kind, "storage")
        if quantity is not None and not parse(quantity).is_integer:
            storage_path = (path / "resources" / kind)["storage"]
            message = f'fractional byte value "{quantity}" is invalid, must be an integer'
            yield f"{storage_path}: {message}"
