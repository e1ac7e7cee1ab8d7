"""Objects of the API within a custom object: that they say what they are, and their metadata.

Mirrors Validate of k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.apiextensions.structural import Structural, has_embedded_resources
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import validate_embedded_metadata
from kapiserver.api.types import Tree, Value


def check(obj: Tree, structural: Structural) -> list[FieldError]:
    """What is wrong with the objects within an object, whose metadata was read as such."""
    return _check_below(obj, structural, Path())


def _check_below(value: Value, node: Structural, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if not has_embedded_resources(node):
        return found
    if isinstance(value, dict):
        for name, one in value.items():
            child = node.field(name)
            if child is not None:
                at = path / name if name in node.properties else path[name]
                found += _check(one, child, at)
    elif isinstance(value, list) and node.items is not None:
        for index, one in enumerate(value):
            found += _check(one, node.items, path[index])
    return found


def _check(value: Value, node: Structural, path: Path) -> list[FieldError]:
    found = _check_object(value, path) if node.embedded and isinstance(value, dict) else []
    return found + _check_below(value, node, path)


def _check_object(obj: Tree, path: Path) -> list[FieldError]:
    version, kind = obj.get("apiVersion"), obj.get("kind")
    found: list[FieldError] = []
    if not version:
        found.append(required(path / "apiVersion", ""))
    elif version.count("/") > 1:
        words = f"unexpected GroupVersion string: {version}"
        found.append(invalid(path / "apiVersion", version, words))
    if not kind:
        found.append(required(path / "kind", ""))
    elif wrong := names.dns1035_label(kind.lower()):
        words = "may have mixed case, but should otherwise match: "
        found.append(invalid(path / "kind", kind, words + ",".join(wrong)))
    return found + validate_embedded_metadata(obj, path)
