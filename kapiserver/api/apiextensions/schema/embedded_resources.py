"""Validation of embedded resources (x-kubernetes-embedded-resource): kind, apiVersion and metadata.

Mirrors Validate of k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.apiextensions.schema.structural import Structural, has_embedded_resources
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import validate_embedded_metadata
from kapiserver.api.types import Tree, Value


def check(obj: Tree, structural: Structural) -> list[FieldError]:
    """Return the errors of the resources embedded in an object."""
    return _check_children(obj, structural, Path())


def _check_children(value: Value, node: Structural, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if not has_embedded_resources(node):
        return errors
    if isinstance(value, dict):
        for name, child_value in value.items():
            child = node.field(name)
            if child is not None:
                child_path = path / name if name in node.properties else path[name]
                errors += _check(child_value, child, child_path)
    elif isinstance(value, list) and node.items is not None:
        for index, child_value in enumerate(value):
            errors += _check(child_value, node.items, path[index])
    return errors


def _check(value: Value, node: Structural, path: Path) -> list[FieldError]:
    errors = _check_object(value, path) if node.embedded and isinstance(value, dict) else []
    return errors + _check_children(value, node, path)


def _check_object(obj: Tree, path: Path) -> list[FieldError]:
    version, kind = obj.get("apiVersion"), obj.get("kind")
    errors: list[FieldError] = []
    if not version:
        errors.append(required(path / "apiVersion", ""))
    elif version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(path / "apiVersion", version, detail))
    if not kind:
        errors.append(required(path / "kind", ""))
    elif messages := names.dns1035_label(kind.lower()):
        detail = "may have mixed case, but should otherwise match: "
        errors.append(invalid(path / "kind", kind, detail + ",".join(messages)))
    return errors + validate_embedded_metadata(obj, path)
