"""Query parameters as option objects and back: `?limit=5&watch=true` is a ListOptions.

Options are the declared kinds of meta/v1 (ListOptions, DeleteOptions, ...) or of a group
(PodLogOptions); what a query can spell of one is its strings, booleans, integers and lists of
strings. Knows no request. Mirrors runtime.ParameterCodec and the conversions of url.Values in
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
"""Names to all their values, in order; as urllib.parse.parse_qs gives them with blanks kept."""

META_V1 = GroupVersion("meta.k8s.io", "v1")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BITS = {"int32": 32, "int64": 64}


class ParameterCodec:
    """Options of one scheme from query parameters and back."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def decode(self, query: Query, kind: str, version: GroupVersion = META_V1) -> Tree:
        """The options that a query spells; what it does not name is absent.

        Of a name given twice the first value counts, unless it is a list. Raises WrongValue in
        Go's words for what is no integer.
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
        """The query that spells the options; zero values are left out."""
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
        return list(values)
    text = values[0] if values else ""
    if isinstance(field.shape, Message):
        # A leaf such as Time has a text form; other messages cannot be spelled in a query.
        return text or None if hasattr(field.shape.type, "canonical") else None
    if not isinstance(field.shape, Scalar):
        return None
    if field.shape.name == "bool":
        # As Go's conversion: a bare `?watch` is true, and so is anything but a plain no.
        return bool(values) and text.lower() not in ("false", "0")
    if field.shape.name in _BITS:
        return _parse_integer(text, _BITS[field.shape.name])
    return text


def _parse_integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise WrongValue(f"strconv.ParseInt: parsing {_quote(text)}: invalid syntax")
    bound = 1 << (bits - 1)
    value = int(text) if len(text.lstrip("+-0")) <= 19 else bound
    if not -bound <= value < bound:
        raise WrongValue(f"strconv.ParseInt: parsing {_quote(text)}: value out of range")
    return value


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
