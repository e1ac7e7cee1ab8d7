"""Validation of one version of a definition: schema, subresources, columns, selectable fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.apiextensions.cel import rules
from kapiserver.api.apiextensions.schema import structural, structural_rules
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, required, too_many
from kapiserver.api.types import Tree

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
MAX_SELECTABLE_FIELDS = 8
MAX_WARNING = 256
_SELECTABLE = ("string", "boolean", "integer")

_ROOT_KEYWORDS = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
"""Keywords that a schema may use at its root if there is a status subresource, with Go's names."""


def validate_schema(
    schema: Tree, path: Path, *, has_status: bool, is_old: bool
) -> Iterator[FieldError]:
    """Yield the errors of a schema; `is_old` if an old version has it, so that its rules are
    valid."""
    if has_status:
        yield from _root(schema, path)
    problems = structural_rules.check(schema, path)
    yield from problems
    if not problems and not is_old:
        yield from rules.check_rules(structural.compile(schema), path)


def _root(schema: Tree, path: Path) -> Iterator[FieldError]:
    type_ = schema.get("type") or ""
    if type_ and type_ != "object":
        detail = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield invalid(path / "type", type_, detail)
    elif any(
        value not in (None, "", False, [], {}) and name not in _ROOT_KEYWORDS
        for name, value in schema.items()
    ):
        allowed = " ".join(_ROOT_KEYWORDS.values())
        detail = (
            f"only [{allowed}] fields are allowed at the root of the schema if the status "
            "subresource is enabled"
        )
        yield invalid(path, schema, detail)


def validate_deprecation(version: Tree, path: Path) -> Iterator[FieldError]:
    """Yield the errors of the deprecation warning of a version."""
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > MAX_WARNING:
        yield invalid(path, text, f"must be <= {MAX_WARNING} characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    for index, character in enumerate(text):
        if not character.isprintable():
            byte_index = len(text[:index].encode())
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {byte_index}"
            )
            yield invalid(path, text, detail)
            return


def validate_subresources(subresources: Tree, path: Path) -> Iterator[FieldError]:
    """Yield the errors of the paths of a scale subresource."""
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, parent in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        field_path, text = path / f"scale.{name}", scale.get(name) or ""
        problems = list(_simple_path(text, field_path))
        if not text:
            yield required(field_path)
        elif problems:
            yield from problems
        elif not text.startswith(f".{parent}."):
            yield invalid(field_path, text, f"should be a json path under .{parent}")
    text, field_path = scale.get("labelSelectorPath") or "", path / "scale.labelSelectorPath"
    if text:
        problems = list(_simple_path(text, field_path))
        if problems:
            yield from problems
        elif not text.startswith((".spec.", ".status.")):
            yield invalid(field_path, text, "should be a json path under either .spec or .status")


def _simple_path(text: str, path: Path) -> Iterator[FieldError]:
    if text and text[0] != ".":
        yield invalid(path, text, "must be a simple json path starting with .")


def validate_columns(columns: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    """Yield the errors of printer columns."""
    for index, column in enumerate(columns):
        column_path = path[index]
        if not column["name"]:
            yield required(column_path / "name")
        detail = f"must be one of {','.join(COLUMN_TYPES)}"
        if not column["type"]:
            yield required(column_path / "type", detail)
        elif column["type"] not in COLUMN_TYPES:
            yield invalid(column_path / "type", column["type"], detail)
        if column.get("format") and column["format"] not in COLUMN_FORMATS:
            detail = f"must be one of {','.join(COLUMN_FORMATS)}"
            yield invalid(column_path / "format", column["format"], detail)
        if not column["jsonPath"]:
            yield required(column_path / "JSONPath")
        else:
            yield from _simple_path(column["jsonPath"], column_path / "JSONPath")


def validate_selectable_fields(
    fields: Sequence[Tree], schema: Tree, path: Path
) -> Iterator[FieldError]:
    """Yield the errors of selectable fields."""
    paths: set[str] = set()
    for index, field_entry in enumerate(fields):
        text, field_path = field_entry.get("jsonPath") or "", path[index] / "jsonPath"
        if not text:
            yield required(field_path)
            continue
        steps = text.removeprefix(".").split(".")
        problem, field_schema = _field_schema(text, steps, schema)
        if problem:
            yield invalid(field_path, text, f"is an invalid path: {problem}")
            continue
        if steps[0] == "metadata":
            yield invalid(field_path, text, "must not point to fields in metadata")
        if (field_schema.get("type") or "") not in _SELECTABLE:
            yield invalid(
                field_path,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed.",
            )
        if text in paths:
            yield duplicate(field_path, text)
        paths.add(text)
    if len(paths) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(paths), MAX_SELECTABLE_FIELDS)


def _field_schema(text: str, steps: Sequence[str], schema: Tree) -> tuple[str, Tree]:
    """Return the error of a path, and the schema of its field."""
    if not text.startswith("."):
        return f"expected [ or . but got: {text}", {}
    for step in steps:
        if "[" in step:
            return "array notation is not allowed", {}
        child = (schema.get("properties") or {}).get(step)
        if child is None:
            return "does not refer to a valid field", {}
        schema = child
    return "", schema
