"""Merges OpenAPI v2 documents of extension API servers into that of the host. Knows no server.

Definitions and parameters that have the same name but differ get another name, `NAME_v2`. Mirrors
pkg/aggregator of kube-openapi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kapiserver.api.types import Tree

_DEFINITIONS, _PARAMETERS = "#/definitions/", "#/parameters/"
_KINDS = "x-kubernetes-group-version-kind"


def filtered_spec(spec: Tree, prefix: str) -> Tree:
    """Return the paths of a document that begin with a prefix, and the definitions and parameters
    that they use."""
    paths = {
        path: item for path, item in (spec.get("paths") or {}).items() if path.startswith(prefix)
    }
    return _with_used(spec, paths)


def merge_spec(into: Tree, spec: Tree) -> None:
    """Add the paths of a document that `into` does not have, with their definitions and parameters.
    `into` changes, but none of its parts; `spec` does not."""
    paths = {path: item for path, item in spec["paths"].items() if path not in into["paths"]}
    if not paths:
        return
    if len(paths) < len(spec["paths"]):
        spec = _with_used(spec, paths)
    renames = _renames(into, spec, "definitions", _DEFINITIONS, _same_definition)
    renames |= _renames(into, spec, "parameters", _PARAMETERS, lambda old, new: bool(old == new))
    if renames:
        spec = _renamed(spec, renames)
    definitions = dict(into.get("definitions") or {})
    for name, definition in (spec.get("definitions") or {}).items():
        definitions[name] = _with_kinds(definitions.get(name, definition), definition)
    into["definitions"] = definitions
    into["parameters"] = (spec.get("parameters") or {}) | (into.get("parameters") or {})
    into["paths"] = into["paths"] | spec["paths"]


def _with_used(spec: Tree, paths: Mapping[str, Any]) -> Tree:
    """Return a document with these paths, and what they refer to, directly or through others."""
    definitions, parameters = spec.get("definitions") or {}, spec.get("parameters") or {}
    used: dict[str, None] = {}
    waiting = list(_references(paths))
    while waiting:
        reference = waiting.pop()
        if reference not in used:
            used[reference] = None
            folder = parameters if reference.startswith(_PARAMETERS) else definitions
            waiting += _references(folder.get(reference.rpartition("/")[2]))
    return {
        "paths": dict(paths),
        "definitions": {
            name: definition
            for name, definition in definitions.items()
            if _DEFINITIONS + name in used
        },
        "parameters": {
            name: parameter for name, parameter in parameters.items() if _PARAMETERS + name in used
        },
    }


def _references(value: Any) -> Iterator[str]:
    """Yield all values of `$ref`."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                yield reference
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _renames(
    into: Tree, spec: Tree, part: str, prefix: str, is_same: Callable[[Any, Any], bool]
) -> dict[str, str]:
    """Return the references of a document that must be renamed, and the new ones."""
    present, added = into.get(part) or {}, spec.get(part) or {}
    renames: dict[str, str] = {}
    names = {*present, *added}
    for name, value in added.items():
        if name in present and not is_same(present[name], value):
            number = 2
            while (other := f"{name}_v{number}") in names:
                if other in present and is_same(present[other], value):
                    break
                number += 1
            names.add(other)
            renames[prefix + name] = prefix + other
    return renames


def _renamed(spec: Tree, renames: Mapping[str, str]) -> Tree:
    spec = _with_references(spec, renames)
    for part, prefix in (("definitions", _DEFINITIONS), ("parameters", _PARAMETERS)):
        spec[part] = {
            renames.get(prefix + name, prefix + name)[len(prefix) :]: value
            for name, value in (spec.get(part) or {}).items()
        }
    return spec


def _with_references(value: Any, renames: Mapping[str, str]) -> Any:
    """Return a copy with other values of `$ref`."""
    if isinstance(value, list):
        return [_with_references(item, renames) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {name: _with_references(item, renames) for name, item in value.items()}
    reference = copy.get("$ref")
    if isinstance(reference, str):
        copy["$ref"] = renames.get(reference, reference)
    return copy


def _same_definition(old: Tree, new: Tree) -> bool:
    """Report whether two definitions are equal except for the kinds that they belong to."""
    return {**old, _KINDS: None} == {**new, _KINDS: None}


def _with_kinds(old: Tree, new: Tree) -> Tree:
    """Return a definition with the kinds of both."""
    kinds, added = old.get(_KINDS), new.get(_KINDS)
    if not isinstance(added, list) or kinds == added:
        return old
    kinds = kinds if isinstance(kinds, list) else []
    missing = [kind for kind in added if kind not in kinds]
    return {**old, _KINDS: sorted(kinds + missing, key=_kind_key)} if missing else old


def _kind_key(kind: Any) -> str:
    if not isinstance(kind, dict):
        return ""
    return f"{kind.get('group')}/{kind.get('version')}.{kind.get('kind')}"
