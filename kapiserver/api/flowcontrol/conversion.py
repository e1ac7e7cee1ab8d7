"""Conversion of flowcontrol.apiserver.k8s.io/v1beta3, where 0 concurrency shares of a limited level
mean the default: an annotation marks a level of v1 that has 0.

Mirrors pkg/apis/flowcontrol/v1beta3/conversion.go.
"""

from __future__ import annotations

from kapiserver.api.conversion import Functions
from kapiserver.api.flowcontrol import v1, v1beta3
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree

_ANNOTATION = v1beta3.PRESERVE_ZERO_SHARES


def _convert_shares(source: Tree, target: Tree) -> None:
    """Convert between an integer and a pointer to one."""
    target["nominalConcurrencyShares"] = source.get("nominalConcurrencyShares") or 0


def _level_from_v1beta3(source: Tree, target: Tree) -> None:
    metadata = source.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if _ANNOTATION in annotations:
        others = {name: value for name, value in annotations.items() if name != _ANNOTATION}
        target["metadata"] = _with_annotations(metadata, others)


def _level_to_v1beta3(source: Tree, target: Tree) -> None:
    limited = (source.get("spec") or {}).get("limited")
    if limited is not None and not limited.get("nominalConcurrencyShares"):
        metadata = source.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), _ANNOTATION: ""}
        target["metadata"] = _with_annotations(metadata, annotations)


def _with_annotations(metadata: Tree, annotations: Tree) -> Tree:
    """Return the metadata with other annotations; without the field if there are none."""
    copy = {**metadata, "annotations": dict(sorted(annotations.items()))}
    if not annotations:
        del copy["annotations"]
    reorder_keys(copy, ObjectMeta)
    return copy


CONVERSIONS: Functions = {
    (
        v1.LimitedPriorityLevelConfiguration,
        v1beta3.LimitedPriorityLevelConfiguration,
    ): _convert_shares,
    (
        v1beta3.LimitedPriorityLevelConfiguration,
        v1.LimitedPriorityLevelConfiguration,
    ): _convert_shares,
    (v1.PriorityLevelConfiguration, v1beta3.PriorityLevelConfiguration): _level_to_v1beta3,
    (v1beta3.PriorityLevelConfiguration, v1.PriorityLevelConfiguration): _level_from_v1beta3,
}
