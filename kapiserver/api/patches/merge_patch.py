"""JSON merge patch (RFC 7396) on trees.

Knows no type: the caller decodes and checks the result. Mirrors jsonpatch.MergePatch as
kube-apiserver calls it.
"""

from __future__ import annotations

from kapiserver.api.errors import BadObject
from kapiserver.api.go_format import json_type
from kapiserver.api.types import Tree, Value


def read(patch: Value) -> Tree:
    """Check that a decoded body is a merge patch. Raises BadObject."""
    if patch is None:
        raise BadObject("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise BadObject(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return patch


def apply(target: Value, patch: Value) -> Value:
    """Return the target after the patch. The arguments do not change, but the result shares
    parts."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply(merged.get(key), value)
    return merged
