"""What a client should be told about valid volumes and claims: what is deprecated or gone.

Mirrors pkg/api/persistentvolume and pkg/api/persistentvolumeclaim of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.validation.persistent_volume_claims import CLASS_ANNOTATION
from kapiserver.api.core.validation.persistent_volumes import MOUNT_ANNOTATION
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.warnings import OLD_NODE_LABELS
from kapiserver.api.errors import Path
from kapiserver.api.objects import annotations_of, value_at
from kapiserver.api.types import Tree

_ANNOTATIONS = Path("metadata") / "annotations"
_SPEC = Path("spec")
GONE = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def persistent_volume(obj: Tree) -> Iterator[str]:
    """A volume."""
    yield from _class_annotation(obj)
    if MOUNT_ANNOTATION in annotations_of(obj):
        at = _ANNOTATIONS[MOUNT_ANNOTATION]
        yield f'{at}: deprecated since v1.31; use "mountOptions" attribute instead'
    spec = obj.get("spec") or {}
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            f"{_SPEC / 'persistentVolumeReclaimPolicy'}: The Recycle reclaim policy is "
            "deprecated. Instead, the recommended approach is to use dynamic provisioning."
        )
    terms = value_at(spec, "nodeAffinity", "required", "nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        at = (_SPEC / "nodeAffinity" / "required" / "nodeSelectorTerms")[index]
        yield from node_selector_term(term, at)
    for name, words in GONE.items():
        if spec.get(name) is not None:
            yield f"{_SPEC / name}: {words}"


def _class_annotation(obj: Tree) -> Iterator[str]:
    if CLASS_ANNOTATION in annotations_of(obj):
        at = _ANNOTATIONS[CLASS_ANNOTATION]
        yield f'{at}: deprecated since v1.8; use "storageClassName" attribute instead'


def node_selector_term(term: Tree, path: Path) -> Iterator[str]:
    """One term of a node selector."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        words = OLD_NODE_LABELS.get(requirement.get("key") or "")
        if words:
            key_path = (path / "matchExpressions")[index] / "key"
            yield f"{key_path}: {requirement['key']} is {words}"


def persistent_volume_claim(obj: Tree) -> Iterator[str]:
    """A claim."""
    yield from _class_annotation(obj)
    yield from claim_spec(obj.get("spec") or {}, _SPEC)


def claim_spec(spec: Tree, path: Path) -> Iterator[str]:
    """What storage is asked for."""
    for kind in ("requests", "limits"):
        size = value_at(spec, "resources", kind, "storage")
        if size is not None and amount(size) % 1:
            at = (path / "resources" / kind)["storage"]
            yield f'{at}: fractional byte value "{size}" is invalid, must be an integer'
