"""The formats of jq, such as `@base64` and `@json`, and interpolation in strings."""

from __future__ import annotations

import base64
import binascii
import html
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Computation, Filter, Scope, computed, values_of
from kapiserver.simulation.jq.values import type_of

_MAX_TEXT = 1 << 20


def to_json(value: Any) -> str:
    """Return the JSON of a value, with the names of objects in order."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # a number is too large for orjson
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def to_text(value: Any) -> str:
    """Return a string itself, and the JSON of other values."""
    return value if isinstance(value, str) else to_json(value)


def _to_html(value: Any) -> str:
    return html.escape(to_text(value)).replace("&#x27;", "&apos;")


def _to_uri(value: Any) -> str:
    return urllib.parse.quote(to_text(value), safe="")


def _from_uri(value: Any) -> str:
    return urllib.parse.unquote(to_text(value))


def _to_base64(value: Any) -> str:
    return base64.b64encode(to_text(value).encode()).decode()


def _from_base64(value: Any) -> str:
    text = to_text(value).rstrip("=")
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise JqError("@base64d cannot be applied to: string") from None
    return decoded.decode(errors="replace")


def _row(separator: str, text: Callable[[str], str]) -> Callable[[Any], str]:
    def write(value: Any) -> str:
        if not isinstance(value, list):
            raise JqError(f"a row is not an array but: {type_of(value)}")
        return separator.join(map(_cell, value))

    def _cell(value: Any) -> str:
        if isinstance(value, list | dict):
            raise JqError(f"a cell is not a scalar but: {type_of(value)}")
        return text(value) if isinstance(value, str) else "" if value is None else to_json(value)

    return write


def _csv_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _tsv_text(text: str) -> str:
    for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\r", "\\r"), ("\n", "\\n")):
        text = text.replace(character, escape)
    return text


def _to_shell(value: Any) -> str:
    return " ".join(map(_shell_word, value if isinstance(value, list) else [value]))


def _shell_word(value: Any) -> str:
    if isinstance(value, list | dict):
        raise JqError(f"{type_of(value)} cannot be a word of a shell")
    return "'" + value.replace("'", r"'\''") + "'" if isinstance(value, str) else to_json(value)


def _format(write: Callable[[Any], str]) -> Computation:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        yield scope.budget.spend_for(write(scope.budget.spend_for(value)))

    return run


FORMATS: Mapping[str, Computation] = {
    "@base64": _format(_to_base64),
    "@base64d": _format(_from_base64),
    "@csv": _format(_row(",", _csv_text)),
    "@html": _format(_to_html),
    "@json": _format(to_json),
    "@sh": _format(_to_shell),
    "@text": _format(to_text),
    "@tsv": _format(_row("\t", _tsv_text)),
    "@uri": _format(_to_uri),
    "@urid": _format(_from_uri),
}


def interpolation(parts: Sequence[str | Filter], form: Computation) -> Filter:
    """Return a string whose filters are replaced by their results, in a format."""

    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for text in texts(parts, value, scope):
            yield scope.budget.spend_for(text)

    def texts(parts: Sequence[str | Filter], value: Any, scope: Scope) -> Iterator[str]:
        if not parts:
            yield ""
            return
        *before, last = parts
        for text in _written(last, form, value, scope):
            for start in texts(before, value, scope):
                scope.budget.spend()
                if len(start) + len(text) > _MAX_TEXT:
                    raise JqError("a string is too long")
                yield start + text

    return computed(run)


def _written(part: str | Filter, form: Computation, value: Any, scope: Scope) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    for result in values_of(part, value, scope):
        yield from form(result, scope)
