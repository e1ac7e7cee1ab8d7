"""The hash of a pod template, which becomes a label and part of a name."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import orjson

from kapiserver.api.types import Tree

POD_TEMPLATE_HASH = "pod-template-hash"
_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Tree, collision_count: int | None = None) -> str:
    """Return at most ten letters and digits that name the template. They are not those of
    Kubernetes, which hashes a dump of Go structs. `collision_count` changes the hash."""
    text = orjson.dumps(canonical_template(template), option=orjson.OPT_SORT_KEYS)
    number = zlib.crc32(text)
    if collision_count is not None:
        number = zlib.crc32(collision_count.to_bytes(8, "little"), number)
    return safe_text(str(number))


def safe_text(text: str) -> str:
    """Return the text in characters that form no words; mirrors SafeEncodeString of
    k8s.io/apimachinery/pkg/util/rand."""
    return "".join(_SAFE_CHARACTERS[ord(letter) % len(_SAFE_CHARACTERS)] for letter in text)


def canonical_template(template: Tree) -> Tree:
    """Return the template without `pod-template-hash` and without empty fields, so that equal
    templates are equal trees."""
    metadata: Tree = template.get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    kept = {name: value for name, value in labels.items() if name != POD_TEMPLATE_HASH}
    return _without_empty(template | {"metadata": metadata | {"labels": kept}})


def _without_empty(value: Tree) -> Tree:
    return {
        name: _without_empty(item) if isinstance(item, dict) else item
        for name, item in value.items()
        if item not in (None, {}, [], "")
    }
