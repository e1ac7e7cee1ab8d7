"""Converts query parameters to option objects and back: `?limit=5&watch=true` is a ListOptions.

Options are declared kinds of meta/v1 (ListOptions, DeleteOptions, ...) or of a group
(PodLogOptions). A query can express their strings, booleans, integers and lists of strings. Knows
no request. Mirrors runtime.ParameterCodec and the conversions of url.Values in
k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Field, ListOf, Message, Scalar, Tree, Value
from kapiserver.codecs.errors import WrongValue
from kapiserver.codecs.object_decoder import registered_type

Query = Mapping[str, Sequence[str]]
"""All values of each name in order, as urllib.parse.parse_qs returns them if it keeps blanks."""

META_V1 = GroupVersion("meta.k8s.io", "v1")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BITS = {"int32": 32, "int64": 64}


class ParameterCodec:
    """Encodes and decodes the options of one scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def decode(self, query: Query, kind: str, version: GroupVersion = META_V1) -> Tree:
        """Return the options of a query; options that it does not name are absent.

        The first value of a repeated name counts, unless the option is a list. Raises WrongValue
        with Go's message for an invalid integer.
        """
        options: Tree = {"kind": kind, "apiVersion": str(version)}
        for flat in registered_type(self._scheme, version.with_kind(kind)).flat_fields():
            values = query.get(flat.field.name)
            if values is None or flat.field.number is None:
                continue
            value = _decode_value(flat.field, values)
            if value is not None and (value or flat.field.pointer):
                options[flat.field.name] = value
        if kind == "DeleteOptions" and (uids := query.get("uid")) and uids[0]:
            options["preconditions"] = {"uid": uids[0]}
        return options

    def encode(
        self, options: Tree, kind: str, version: GroupVersion = META_V1
    ) -> dict[str, list[str]]:
        """Return the query for the options, without zero values."""
        query: dict[str, list[str]] = {}
        for flat in registered_type(self._scheme, version.with_kind(kind)).flat_fields():
            value = options.get(flat.field.name)
            if flat.field.number is None or value is None:
                continue
            if value or flat.field.pointer:
                texts = _encode_value(value)
                if texts:
                    query[flat.field.name] = texts
        uid = (options.get("preconditions") or {}).get("uid")
        if kind == "DeleteOptions" and uid:
            query["uid"] = [uid]
        return query


def _decode_value(field: Field, values: Sequence[str]) -> Value:
    if isinstance(field.shape, ListOf):
        if isinstance(field.shape.item, Scalar) and field.shape.item.name in _BITS:
            return [_parse_port(text) for value in values for text in value.split(",")]
        return list(values)
    text = values[0] if values else ""
    if isinstance(field.shape, Message):
        # Scalar types such as Time have a text form; other messages have none in a query.
        return text or None if hasattr(field.shape.type, "canonical") else None
    if not isinstance(field.shape, Scalar):
        return None
    if field.shape.name == "bool":
        # As in Go's conversion, a bare `?watch` and any value but "false" and "0" are true.
        return bool(values) and text.lower() not in ("false", "0")
    if field.shape.name in _BITS:
        return _parse_integer(text, _BITS[field.shape.name])
    return text


def _parse_integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise WrongValue(f"strconv.ParseInt: parsing {_quote(text)}: invalid syntax")
    bound = 1 << (bits - 1)
    digits = text.lstrip("+-0") or "0"
    value = int(digits) if len(digits) <= 19 else bound
    if text.startswith("-"):
        value = -value
    if not -bound <= value < bound or len(digits) > 19:
        raise WrongValue(f"strconv.ParseInt: parsing {_quote(text)}: value out of range")
    return value


def _parse_port(text: str) -> int:
    """Return an item of a list of integers, which only port-forward has: Go parses 16 bits."""
    if not (text.isascii() and text.isdigit()):
        detail = "invalid syntax"
    elif len(text.lstrip("0")) > 5 or int(text) >> 16:
        detail = "value out of range"
    else:
        return int(text)
    raise WrongValue(
        f"cannot convert to []int32: strconv.ParseUint: parsing {_quote(text)}: {detail}"
    )


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encode_value(value: Value) -> list[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str | int):
        return [str(value)]
    return []
