"""The hash of a pod template, which becomes a label and part of a name, and equal templates."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import orjson

from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

POD_TEMPLATE_HASH = "pod-template-hash"
_QUANTITIES = {"limits", "requests", "overhead", "sizeLimit", "divisor"}
"""The fields of a pod template that are quantities, or maps with quantities as values."""
_TEXTS = {"metadata", "nodeSelector", "matchLabels"}
"""The fields whose values are texts, whatever their keys are."""
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


def same_template(template: Tree, other: Tree) -> bool:
    """Report whether two templates are equal, whatever their hashes are. Quantities are compared by
    value, so that `1Gi` equals `1073741824`; mirrors EqualIgnoreHash of
    pkg/controller/deployment/util."""
    template, other = canonical_template(template), canonical_template(other)
    return template == other or _with_values(template) == _with_values(other)


def canonical_template(template: Tree) -> Tree:
    """Return the template without `pod-template-hash` and without empty fields, so that equal
    templates are equal trees."""
    metadata: Tree = template.get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    other_labels = {name: value for name, value in labels.items() if name != POD_TEMPLATE_HASH}
    return _without_empty(template | {"metadata": metadata | {"labels": other_labels}})


def _without_empty(value: Tree) -> Tree:
    return {
        name: _without_empty(item) if isinstance(item, dict) else item
        for name, item in value.items()
        if item not in (None, {}, [], "")
    }


def _with_values(value: Any) -> Any:
    """Return a tree with the values of its quantities in place of their texts."""
    if isinstance(value, list):
        return [_with_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: item
        if name in _TEXTS
        else _amounts(item)
        if name in _QUANTITIES
        else _with_values(item)
        for name, item in value.items()
    }


def _amounts(value: Any) -> Any:
    """Return the value of a quantity, or a map of such values; what is none stays as it is."""
    if isinstance(value, dict):
        return {name: _amounts(item) for name, item in value.items()}
    try:
        return parse(str(value)).decimal
    except ValueError:
        return value
