"""The last-applied-configuration annotation of `kubectl apply`, for server-side apply.

An object that kubectl managed on the client's side moves to server-side apply without conflicts:
kubectl owns the fields whose values are still those of the annotation. All functions are pure.
Mirrors lastappliedmanager.go and lastappliedupdater.go of
k8s.io/apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

import copy

import orjson

from kapiserver.api.accessors import annotations_of, metadata_of
from kapiserver.api.apply import structured_merge, typed_values
from kapiserver.api.apply.fieldsets import Fields, difference
from kapiserver.api.apply.merge_schema import Node
from kapiserver.api.apply.typed_values import SchemaMismatch
from kapiserver.api.types import Tree

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""The manager of `kubectl apply --server-side`; no other manager gets this treatment."""
MAX_BYTES = 256 * 1024
"""The limit for all annotations; a configuration that exceeds it is not stored."""


def unchanged_fields(node: Node, live: Tree) -> Fields:
    """Return the fields of the annotation of `live` whose values are unchanged."""
    text = annotations_of(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        last_applied = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last_applied, dict) or last_applied.get("apiVersion") != live.get(
        "apiVersion"
    ):
        return {}
    try:
        typed_values.check(node, last_applied)
        diff = structured_merge.compare(node, last_applied, live)
        fields = typed_values.fields_of(node, last_applied)
    except SchemaMismatch:
        return {}
    for changed in (diff.modified, diff.added, diff.removed):
        fields = difference(fields, changed)
    return fields


def update_annotation(obj: Tree, config: Tree) -> None:
    """Set the annotation of `obj`, if it has one, to the configuration just applied."""
    annotations = annotations_of(obj)
    if ANNOTATION not in annotations:
        return
    bare = copy.deepcopy(config)
    config_annotations = (bare.get("metadata") or {}).get("annotations")
    if config_annotations:
        config_annotations.pop(ANNOTATION, None)
    text = orjson.dumps(bare, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    other_annotations = {name: value for name, value in annotations.items() if name != ANNOTATION}
    size = sum(len(part.encode()) for item in other_annotations.items() for part in item)
    if size + len(ANNOTATION) + len(text.encode()) <= MAX_BYTES:
        other_annotations[ANNOTATION] = text
    metadata_of(obj)["annotations"] = dict(sorted(other_annotations.items()))
