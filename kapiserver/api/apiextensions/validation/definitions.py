"""Validation of CustomResourceDefinitions: names, versions, and fields that all versions share.

Errors of fields that are equal in all versions are reported once, at the spec: kube-apiserver's
internal type has these fields there. Mirrors apis/apiextensions/validation of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.apiextensions.validation.approval import ANNOTATION, approval_of
from kapiserver.api.apiextensions.validation.conversions import validate_conversion
from kapiserver.api.apiextensions.validation.versions import (
    validate_columns,
    validate_deprecation,
    validate_schema,
    validate_selectable_fields,
    validate_subresources,
)
from kapiserver.api.conditions import is_true
from kapiserver.api.errors import FieldError, Path, invalid, not_supported, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_SCOPES = ("Cluster", "Namespaced")


def validate_definition(obj: Tree) -> Iterator[FieldError]:
    """Yield the errors of a new definition."""
    required_name = f"{obj['spec']['names']['plural']}.{obj['spec']['group']}"
    for field in ("generateName", "name"):
        name = obj["metadata"].get(field) or ""
        if name and name != required_name:
            text = 'must be spec.names.plural+"."+spec.group'
            yield invalid(Path("metadata") / field, name, text)
    yield from _spec(obj["spec"], None, _Options())
    yield from _accepted_names(obj)
    yield from _stored_versions(obj)
    yield from _approval(obj, None)
    yield from _preserve_unknown_fields(obj, None)


def validate_definition_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Yield the errors of an updated definition."""
    established = is_true(old, "Established")
    yield from _spec(new["spec"], old["spec"], _Options(checks_bundle=established))
    spec, old_spec = new["spec"], old["spec"]
    if established:
        yield from immutable(spec["scope"], old_spec["scope"], _SPEC / "scope")
        field_path = _SPEC / "names" / "kind"
        yield from immutable(spec["names"]["kind"], old_spec["names"]["kind"], field_path)
    yield from immutable(spec["group"], old_spec["group"], _SPEC / "group")
    field_path = _SPEC / "names" / "plural"
    yield from immutable(spec["names"]["plural"], old_spec["names"]["plural"], field_path)
    yield from _accepted_names(new)
    yield from _stored_versions(new)
    yield from _approval(new, old)
    yield from _preserve_unknown_fields(new, old)


def validate_status_update(new: Tree, _old: Tree) -> Iterator[FieldError]:
    """Yield the errors of an updated status."""
    yield from _accepted_names(new)


class _Options(Struct, frozen=True, kw_only=True):
    checks_bundle: bool = False


def _spec(spec: Tree, old: Tree | None, options: _Options) -> Iterator[FieldError]:
    yield from _group(spec["group"])
    if not spec["scope"]:
        yield required(_SPEC / "scope")
    elif spec["scope"] not in _SCOPES:
        yield not_supported(_SPEC / "scope", spec["scope"], _SCOPES)
    versions: list[Tree] = spec.get("versions") or []
    for index, version in enumerate(versions):
        if _schema_of(version) is None:
            field_path = (_SPEC / "versions")[index] / "schema" / "openAPIV3Schema"
            yield required(field_path)
    if spec.get("preserveUnknownFields") and any(
        _has_defaults(_schema_of(version)) for version in versions
    ):
        field_path = _SPEC / "preserveUnknownFields"
        yield invalid(field_path, True, "must be false in order to use defaults in the schema")
    yield from _versions(spec, old)
    yield from _required_names(spec["names"])
    yield from _well_formed_names(spec["names"], _SPEC / "names")
    yield from _shared_fields(versions, old)
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") not in (None, "", "None") and spec.get("preserveUnknownFields"):
        field_path = _SPEC / "conversion" / "strategy"
        yield invalid(
            field_path, conversion["strategy"], "must be None if spec.preserveUnknownFields is true"
        )
    old_conversion = (old or {}).get("conversion")
    field_path = _SPEC / "conversion"
    yield from validate_conversion(
        conversion, old_conversion, field_path, checks_bundle=options.checks_bundle
    )


def _group(group: str) -> Iterator[FieldError]:
    problems = names.dns1123_subdomain(group)
    if not group:
        yield required(_SPEC / "group")
    elif problems:
        yield invalid(_SPEC / "group", group, ",".join(problems))
    elif "." not in group:
        yield invalid(_SPEC / "group", group, "should be a domain with at least one dot")


def _schema_of(version: Tree) -> Tree | None:
    schema: Tree | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _has_defaults(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(_has_defaults(child) for child in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("default") is not None:
        return True
    children = [*(schema.get("properties") or {}).values()]
    children += [schema.get(name) for name in ("items", "additionalProperties", "allOf", "anyOf")]
    children += [schema.get(name) for name in ("oneOf", "not")]
    return any(_has_defaults(child) for child in children)


# Fields that each version can have: (field of a version, field of the internal spec).

_HOISTED_FIELDS = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def _is_shared(versions: list[Tree], name: str) -> bool:
    return bool(versions) and all(
        version.get(name) == versions[0].get(name) for version in versions
    )


def _versions(spec: Tree, old: Tree | None) -> Iterator[FieldError]:
    path, versions = _SPEC / "versions", spec.get("versions") or []
    for index, version in enumerate(versions):
        problems = names.dns1035_label(version["name"])
        if problems:
            yield invalid(path[index] / "name", version["name"], ",".join(problems))
        version_path = path[index]
        yield from validate_deprecation(version, version_path / "deprecationWarning")
        yield from _version_fields(
            version, _version_specific_fields(versions), version_path, version, old
        )
    if len({version["name"] for version in versions}) < len(versions):
        yield invalid(path, _go_versions(versions), "must contain unique version names")
    if sum(bool(version["storage"]) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid(path, _go_versions(versions) or spec.get("versions"), detail)
    # The internal type has the name of the first version a second time.
    for version in versions[:1]:
        if version["name"] and (problems := names.dns1035_label(version["name"])):
            yield invalid(_SPEC / "version", version["name"], ",".join(problems))


def _go_versions(versions: list[Tree]) -> list[Tree]:
    """Return versions as Go's JSON prints the internal structs, which lack what all versions have
    in common. The fields of schemas keep their names."""
    specific = _version_specific_fields(versions)
    return [
        {
            "Name": version["name"],
            "Served": version["served"],
            "Storage": version["storage"],
            "Deprecated": version.get("deprecated") or False,
            "DeprecationWarning": version.get("deprecationWarning"),
            **{
                name[0].upper() + name[1:]: version.get(name) if name in specific else None
                for name in _HOISTED_FIELDS
            },
        }
        for version in versions
    ]


def _version_specific_fields(versions: list[Tree]) -> set[str]:
    return {name for name in _HOISTED_FIELDS if not _is_shared(versions, name)}


def _shared_fields(versions: list[Tree], old: Tree | None) -> Iterator[FieldError]:
    if versions:
        yield from _version_fields(
            versions[0],
            set(_HOISTED_FIELDS) - _version_specific_fields(versions),
            _SPEC,
            versions[0],
            old,
        )


def _version_fields(
    version: Tree, parts: set[str], path: Path, definition: Tree, old: Tree | None
) -> Iterator[FieldError]:
    schema = _schema_of(definition)
    if "schema" in parts and schema is not None:
        schema_field = "validation" if path == _SPEC else "schema"
        has_status = (version.get("subresources") or {}).get("status") is not None
        old_schemas = [_schema_of(old_version) for old_version in (old or {}).get("versions") or ()]
        schema_path = path / schema_field / "openAPIV3Schema"
        yield from validate_schema(
            schema, schema_path, has_status=has_status, is_old=schema in old_schemas
        )
    if "subresources" in parts:
        yield from validate_subresources(version.get("subresources") or {}, path / "subresources")
    if "additionalPrinterColumns" in parts:
        yield from validate_columns(
            version.get("additionalPrinterColumns") or (), path / "additionalPrinterColumns"
        )
    if "selectableFields" in parts:
        fields = version.get("selectableFields") or ()
        yield from validate_selectable_fields(fields, schema or {}, path / "selectableFields")


# Names.


def _required_names(spec_names: Tree) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not spec_names.get(name):
            yield required(_SPEC / "names" / name)


def _well_formed_names(spec_names: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("plural", "singular"):
        text = spec_names.get(name) or ""
        problems = names.dns1035_label(text)
        if text and problems:
            yield invalid(path / name, text, ",".join(problems))
    for name in ("kind", "listKind"):
        text = spec_names.get(name) or ""
        problems = names.dns1035_label(text.lower())
        if text and problems:
            detail = "may have mixed case, but should otherwise match: "
            yield invalid(path / name, text, detail + ",".join(problems))
    yield from _labels(spec_names.get("shortNames") or (), path / "shortNames")
    if spec_names.get("kind") and spec_names["kind"] == spec_names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield invalid(path / "listKind", spec_names["listKind"], detail)
    yield from _labels(spec_names.get("categories") or (), path / "categories")


def _labels(texts: list[str] | tuple[()], path: Path) -> Iterator[FieldError]:
    for index, text in enumerate(texts):
        problems = names.dns1035_label(text)
        if problems:
            yield invalid(path[index], text, ",".join(problems))


# The status and its consistency with the spec.


def _accepted_names(obj: Tree) -> Iterator[FieldError]:
    names = value_at(obj, "status", "acceptedNames") or {}
    yield from _well_formed_names(names, _STATUS / "acceptedNames")


def _stored_versions(obj: Tree) -> Iterator[FieldError]:
    path = _STATUS / "storedVersions"
    stored: list[str] = value_at(obj, "status", "storedVersions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    versions = obj["spec"].get("versions") or ()
    for version in versions:
        if version["storage"] and version["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
    names = {version["name"] for version in versions}
    for index, name in enumerate(stored):
        if name not in names:
            yield invalid(
                path[index],
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions",
            )


def _approval(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    approval = approval_of(new)
    if approval is None:
        return
    if old is not None:
        old_approval = approval_of(old)
        if old_approval is not None and old_approval[0] == approval[0]:
            return
    path = (Path("metadata") / "annotations")[ANNOTATION]
    reason, detail = approval
    if reason == "MissingAnnotation":
        yield required(path, detail)
    elif reason == "InvalidAnnotation":
        yield invalid(path, annotations_of(new).get(ANNOTATION), detail)


def _preserve_unknown_fields(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    if not new["spec"].get("preserveUnknownFields"):
        return
    if old is not None and old["spec"].get("preserveUnknownFields"):
        return
    detail = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    yield invalid(_SPEC / "preserveUnknownFields", True, detail)
