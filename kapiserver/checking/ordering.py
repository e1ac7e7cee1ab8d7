"""The order in which objects are applied, so that each finds what it needs.

Definitions come first, because they say which kinds there are; then what judges other objects:
policies, after their parameters. Namespaces, quotas and accounts come before what lives in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.checking.reading.documents import Manifest

DEFINITION = "CustomResourceDefinition"
POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
BINDINGS = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")

_PARAMETER_NAMESPACES, _PARAMETERS, _POLICIES, _BINDINGS = 1, 2, 3, 4
_ORDER = (
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "Role",
    "ClusterRoleBinding",
    "RoleBinding",
    "Service",
)
_RANKS = {
    DEFINITION: 0,
    **dict.fromkeys(POLICIES, _POLICIES),
    **dict.fromkeys(BINDINGS, _BINDINGS),
    **{kind: _BINDINGS + 1 + index for index, kind in enumerate(_ORDER)},
}
_OTHERS = max(_RANKS.values()) + 1
_SETTLING = frozenset(
    {DEFINITION, *POLICIES, *BINDINGS, *_ORDER[: _ORDER.index("ServiceAccount") + 1]}
    | {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}
)
"""Kinds whose objects change how the server judges others."""


def in_order(manifests: Iterable[Manifest]) -> Iterator[tuple[Sequence[Manifest], bool]]:
    """Yield the manifests in stages, each with whether the server has to settle before the next
    one. Within a stage they keep their order."""
    manifests = list(manifests)
    kinds, namespaces = _parameters(manifest.tree for manifest in manifests)

    def rank(manifest: Manifest) -> int:
        tree = manifest.tree
        if tree["kind"] == "Namespace" and _name(tree) in namespaces:
            return _PARAMETER_NAMESPACES
        if (tree["apiVersion"], tree["kind"]) in kinds:
            return _PARAMETERS
        return _RANKS.get(tree["kind"], _OTHERS)

    for number, stage in groupby(sorted(manifests, key=rank), rank):
        group = list(stage)
        yield group, number <= _BINDINGS or group[0].tree["kind"] in _SETTLING


def _parameters(trees: Iterable[Tree]) -> tuple[set[tuple[Any, Any]], set[Any]]:
    """Return the kinds of the parameters of policies, and the namespaces that bindings name."""
    kinds, namespaces = set(), set()
    for tree in trees:
        spec = tree.get("spec")
        if not isinstance(spec, dict):
            continue
        if tree["kind"] in POLICIES and isinstance(kind := spec.get("paramKind"), dict):
            kinds.add((str(kind.get("apiVersion")), str(kind.get("kind"))))
        if tree["kind"] in BINDINGS and isinstance(reference := spec.get("paramRef"), dict):
            namespaces.add(str(reference.get("namespace")))
    return kinds, namespaces


def _name(tree: Tree) -> Any:
    metadata = tree.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None
