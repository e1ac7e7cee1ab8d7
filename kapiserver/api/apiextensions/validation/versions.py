"""The rules for what one version of a definition says: schema, subresources, columns, fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.apiextensions import cel, structural, structural_rules
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, required, too_many
from kapiserver.api.types import Tree

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
MOST_FIELDS = 8
MOST_WARNING = 256
_SELECTABLE = ("string", "boolean", "integer")

_AT_ROOT = {
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
"""What a schema may say of the whole object where its status is written by itself, and Go's names
of that."""


def schema(found: Tree, path: Path, *, has_status: bool, known: bool) -> Iterator[FieldError]:
    """The rules for a schema; `known`: it was there before, and its rules were looked at then."""
    if has_status:
        yield from _root(found, path)
    problems = structural_rules.check(found, path)
    yield from problems
    if not problems and not known:
        yield from cel.check_rules(structural.compile(found), path)


def _root(found: Tree, path: Path) -> Iterator[FieldError]:
    kind = found.get("type") or ""
    if kind and kind != "object":
        words = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield invalid(path / "type", kind, words)
    elif any(
        one not in (None, "", False, [], {}) and name not in _AT_ROOT for name, one in found.items()
    ):
        allowed = " ".join(_AT_ROOT.values())
        words = (
            f"only [{allowed}] fields are allowed at the root of the schema if the status "
            "subresource is enabled"
        )
        yield invalid(path, found, words)


def deprecation(version: Tree, path: Path) -> Iterator[FieldError]:
    """The rules for the warning of a version."""
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > MOST_WARNING:
        yield invalid(path, text, f"must be <= {MOST_WARNING} characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    for index, one in enumerate(text):
        if not one.isprintable():
            at = len(text[:index].encode())
            words = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {at}"
            )
            yield invalid(path, text, words)
            return


def subresources(found: Tree, path: Path) -> Iterator[FieldError]:
    """The rules for where the numbers of a scale are."""
    scale = found.get("scale")
    if scale is None:
        return
    for name, below in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        at, text = path / f"scale.{name}", scale.get(name) or ""
        problems = list(_simple(text, at))
        if not text:
            yield required(at)
        elif problems:
            yield from problems
        elif not text.startswith(f".{below}."):
            yield invalid(at, text, f"should be a json path under .{below}")
    text, at = scale.get("labelSelectorPath") or "", path / "scale.labelSelectorPath"
    if text:
        problems = list(_simple(text, at))
        if problems:
            yield from problems
        elif not text.startswith((".spec.", ".status.")):
            yield invalid(at, text, "should be a json path under either .spec or .status")


def _simple(text: str, path: Path) -> Iterator[FieldError]:
    if text and text[0] != ".":
        yield invalid(path, text, "must be a simple json path starting with .")


def columns(found: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    """The rules for printer columns."""
    for index, one in enumerate(found):
        at = path[index]
        if not one["name"]:
            yield required(at / "name")
        words = f"must be one of {','.join(COLUMN_TYPES)}"
        if not one["type"]:
            yield required(at / "type", words)
        elif one["type"] not in COLUMN_TYPES:
            yield invalid(at / "type", one["type"], words)
        if one.get("format") and one["format"] not in COLUMN_FORMATS:
            words = f"must be one of {','.join(COLUMN_FORMATS)}"
            yield invalid(at / "format", one["format"], words)
        if not one["jsonPath"]:
            yield required(at / "JSONPath")
        else:
            yield from _simple(one["jsonPath"], at / "JSONPath")


def selectable_fields(found: Sequence[Tree], schema: Tree, path: Path) -> Iterator[FieldError]:
    """The rules for the fields that selectors know."""
    seen: set[str] = set()
    for index, one in enumerate(found):
        text, at = one.get("jsonPath") or "", path[index] / "jsonPath"
        if not text:
            yield required(at)
            continue
        steps = text.removeprefix(".").split(".")
        problem, field = _looked_up(text, steps, schema)
        if problem:
            yield invalid(at, text, f"is an invalid path: {problem}")
            continue
        if steps[0] == "metadata":
            yield invalid(at, text, "must not point to fields in metadata")
        if (field.get("type") or "") not in _SELECTABLE:
            yield invalid(
                at,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed.",
            )
        if text in seen:
            yield duplicate(at, text)
        seen.add(text)
    if len(seen) > MOST_FIELDS:
        yield too_many(path, len(seen), MOST_FIELDS)


def _looked_up(text: str, steps: Sequence[str], schema: Tree) -> tuple[str, Tree]:
    """What is wrong with a path, or the schema of what it leads to."""
    if not text.startswith("."):
        return f"expected [ or . but got: {text}", {}
    for step in steps:
        if "[" in step:
            return "array notation is not allowed", {}
        below = (schema.get("properties") or {}).get(step)
        if below is None:
            return "does not refer to a valid field", {}
        schema = below
    return "", schema
