"""The rules for a CustomResourceDefinition: names, versions, and what all versions share.

What is the same in every version is told of once, as the spec's: so kube-apiserver does, whose
internal form has it there. Mirrors apis/apiextensions/validation of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.apiextensions.conditions import is_true
from kapiserver.api.apiextensions.validation.approval import ANNOTATION, approval_of
from kapiserver.api.apiextensions.validation.conversions import conversion
from kapiserver.api.apiextensions.validation.versions import (
    columns,
    deprecation,
    schema,
    selectable_fields,
    subresources,
)
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_SCOPES = ("Cluster", "Namespaced")


def definition(obj: Tree) -> Iterator[FieldError]:
    """The rules for a new definition."""
    name = obj["metadata"].get("name") or ""
    required_name = f"{obj['spec']['names']['plural']}.{obj['spec']['group']}"
    if name and name != required_name:
        yield invalid(Path("metadata") / "name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _spec(obj["spec"], None, _Options())
    yield from _accepted(obj)
    yield from _stored_versions(obj)
    yield from _approved(obj, None)
    yield from _preserves(obj, None)


def changed_definition(new: Tree, old: Tree) -> Iterator[FieldError]:
    """The rules for a changed one."""
    established = is_true(old, "Established")
    yield from _spec(new["spec"], old["spec"], _Options(checks_bundle=established))
    spec, before = new["spec"], old["spec"]
    if established:
        yield from immutable(spec["scope"], before["scope"], _SPEC / "scope")
        at = _SPEC / "names" / "kind"
        yield from immutable(spec["names"]["kind"], before["names"]["kind"], at)
    yield from immutable(spec["group"], before["group"], _SPEC / "group")
    at = _SPEC / "names" / "plural"
    yield from immutable(spec["names"]["plural"], before["names"]["plural"], at)
    yield from _accepted(new)
    yield from _stored_versions(new)
    yield from _approved(new, old)
    yield from _preserves(new, old)


def changed_status(new: Tree, _old: Tree) -> Iterator[FieldError]:
    """The rules for a changed status."""
    yield from _accepted(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    checks_bundle: bool = False


def _spec(spec: Tree, old: Tree | None, options: _Options) -> Iterator[FieldError]:
    yield from _group(spec["group"])
    if not spec["scope"]:
        yield required(_SPEC / "scope")
    elif spec["scope"] not in _SCOPES:
        yield not_supported(_SPEC / "scope", spec["scope"], _SCOPES)
    versions: list[Tree] = spec.get("versions") or []
    for index, one in enumerate(versions):
        if _schema_of(one) is None:
            at = (_SPEC / "versions")[index] / "schema" / "openAPIV3Schema"
            yield required(at)
    if spec.get("preserveUnknownFields") and any(_has_defaults(_schema_of(v)) for v in versions):
        at = _SPEC / "preserveUnknownFields"
        yield invalid(at, True, "must be false in order to use defaults in the schema")
    yield from _versions(versions, old)
    yield from _names(spec["names"])
    yield from _names_spelled(spec["names"], _SPEC / "names")
    yield from _shared(versions, old)
    how = spec.get("conversion") or {}
    if how.get("strategy") not in (None, "", "None") and spec.get("preserveUnknownFields"):
        at = _SPEC / "conversion" / "strategy"
        yield invalid(at, how["strategy"], "must be None if spec.preserveUnknownFields is true")
    before = (old or {}).get("conversion")
    at = _SPEC / "conversion"
    yield from conversion(how, before, at, checks_bundle=options.checks_bundle)


def _group(group: str) -> Iterator[FieldError]:
    problems = names.dns1123_subdomain(group)
    if not group:
        yield required(_SPEC / "group")
    elif problems:
        yield invalid(_SPEC / "group", group, ",".join(problems))
    elif "." not in group:
        yield invalid(_SPEC / "group", group, "should be a domain with at least one dot")


def _schema_of(version: Tree) -> Tree | None:
    found: Tree | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _has_defaults(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(_has_defaults(one) for one in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("default") is not None:
        return True
    below = [*(schema.get("properties") or {}).values()]
    below += [schema.get(name) for name in ("items", "additionalProperties", "allOf", "anyOf")]
    below += [schema.get(name) for name in ("oneOf", "not")]
    return any(_has_defaults(one) for one in below)


# What a version has of its own: (the field of a version, of the spec).

_HOISTED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def _is_shared(versions: list[Tree], name: str) -> bool:
    return bool(versions) and all(one.get(name) == versions[0].get(name) for one in versions)


def _versions(versions: list[Tree], old: Tree | None) -> Iterator[FieldError]:
    path = _SPEC / "versions"
    for index, one in enumerate(versions):
        problems = names.dns1035_label(one["name"])
        if problems:
            yield invalid(path[index] / "name", one["name"], ",".join(problems))
        at = path[index]
        yield from deprecation(one, at / "deprecationWarning")
        yield from _parts(one, _own(versions), at, one, old)
    if len({one["name"] for one in versions}) < len(versions):
        yield invalid(path, versions, "must contain unique version names")
    if sum(bool(one["storage"]) for one in versions) != 1:
        yield invalid(path, versions, "must have exactly one version marked as storage version")


def _own(versions: list[Tree]) -> set[str]:
    return {name for name in _HOISTED if not _is_shared(versions, name)}


def _shared(versions: list[Tree], old: Tree | None) -> Iterator[FieldError]:
    if versions:
        yield from _parts(versions[0], set(_HOISTED) - _own(versions), _SPEC, versions[0], old)


def _parts(
    version: Tree, parts: set[str], path: Path, whole: Tree, old: Tree | None
) -> Iterator[FieldError]:
    found = _schema_of(whole)
    if "schema" in parts and found is not None:
        where = "validation" if path == _SPEC else "schema"
        has_status = (version.get("subresources") or {}).get("status") is not None
        before = [_schema_of(one) for one in (old or {}).get("versions") or ()]
        at = path / where / "openAPIV3Schema"
        yield from schema(found, at, has_status=has_status, known=found in before)
    if "subresources" in parts:
        yield from subresources(version.get("subresources") or {}, path / "subresources")
    if "additionalPrinterColumns" in parts:
        yield from columns(
            version.get("additionalPrinterColumns") or (), path / "additionalPrinterColumns"
        )
    if "selectableFields" in parts:
        fields = version.get("selectableFields") or ()
        yield from selectable_fields(fields, found or {}, path / "selectableFields")


# Names.


def _names(found: Tree) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not found.get(name):
            yield required(_SPEC / "names" / name)


def _names_spelled(found: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("plural", "singular"):
        text = found.get(name) or ""
        problems = names.dns1035_label(text)
        if text and problems:
            yield invalid(path / name, text, ",".join(problems))
    for name in ("kind", "listKind"):
        text = found.get(name) or ""
        problems = names.dns1035_label(text.lower())
        if text and problems:
            words = "may have mixed case, but should otherwise match: "
            yield invalid(path / name, text, words + ",".join(problems))
    yield from _labels(found.get("shortNames") or (), path / "shortNames")
    if found.get("kind") and found["kind"] == found.get("listKind"):
        words = "kind and listKind may not be the same"
        yield invalid(path / "listKind", found["listKind"], words)
    yield from _labels(found.get("categories") or (), path / "categories")


def _labels(texts: list[str] | tuple[()], path: Path) -> Iterator[FieldError]:
    for index, text in enumerate(texts):
        problems = names.dns1035_label(text)
        if problems:
            yield invalid(path[index], text, ",".join(problems))


# The status, and what it must agree with.


def _accepted(obj: Tree) -> Iterator[FieldError]:
    accepted = value_at(obj, "status", "acceptedNames") or {}
    yield from _names_spelled(accepted, _STATUS / "acceptedNames")


def _stored_versions(obj: Tree) -> Iterator[FieldError]:
    path = _STATUS / "storedVersions"
    stored: list[str] = value_at(obj, "status", "storedVersions") or []
    if not stored:
        yield invalid(path, stored, "must have at least one stored version")
        return
    versions = obj["spec"].get("versions") or ()
    for one in versions:
        if one["storage"] and one["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {one['name']}")
    known = {one["name"] for one in versions}
    for index, name in enumerate(stored):
        if name not in known:
            yield invalid(
                path[index],
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions",
            )


def _approved(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    found = approval_of(new)
    if found is None:
        return
    if old is not None:
        before = approval_of(old)
        if before is not None and before[0] == found[0]:
            return
    path = (Path("metadata") / "annotations")[ANNOTATION]
    state, words = found
    if state == "MissingAnnotation":
        yield required(path, words)
    elif state == "InvalidAnnotation":
        yield invalid(path, annotations_of(new).get(ANNOTATION), words)


def _preserves(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    if not new["spec"].get("preserveUnknownFields"):
        return
    if old is not None and old["spec"].get("preserveUnknownFields"):
        return
    words = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    yield invalid(_SPEC / "preserveUnknownFields", True, words)
