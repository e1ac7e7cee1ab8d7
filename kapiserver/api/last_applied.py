"""The annotation in which `kubectl apply` keeps what it applied last, met by server-side apply.

An object that kubectl managed from the client's side moves to the server's side without conflicts:
what the annotation says and the object still is, is the user's own. Pure. Mirrors
lastappliedmanager.go and lastappliedupdater.go of k8s.io/apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

import copy

import orjson

from kapiserver.api import structured_merge, typed_values
from kapiserver.api.accessors import annotations_of, metadata_of
from kapiserver.api.fieldsets import Fields, difference
from kapiserver.api.merge_schema import Node
from kapiserver.api.typed_values import SchemaMismatch
from kapiserver.api.types import Tree

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""The manager of `kubectl apply --server-side`, and the only one this is done for."""
MAX_BYTES = 256 * 1024
"""Of all annotations; a longer configuration is not kept."""


def unchanged_fields(node: Node, live: Tree) -> Fields:
    """The fields that the annotation of `live` sets to what they are."""
    text = annotations_of(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        last = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return {}
    try:
        typed_values.check(node, last)
        diff = structured_merge.compare(node, last, live)
        fields = typed_values.fields_of(node, last)
    except SchemaMismatch:
        return {}
    for changed in (diff.modified, diff.added, diff.removed):
        fields = difference(fields, changed)
    return fields


def update_annotation(obj: Tree, config: Tree) -> None:
    """Bring the annotation of `obj`, where it has one, up to the configuration just applied."""
    annotations = annotations_of(obj)
    if ANNOTATION not in annotations:
        return
    bare = copy.deepcopy(config)
    kept = (bare.get("metadata") or {}).get("annotations")
    if kept:
        kept.pop(ANNOTATION, None)
    text = orjson.dumps(bare, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in others.items())
    if size + len(ANNOTATION) + len(text.encode()) <= MAX_BYTES:
        others[ANNOTATION] = text
    metadata_of(obj)["annotations"] = dict(sorted(others.items()))
