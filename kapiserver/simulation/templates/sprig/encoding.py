"""sprig's functions for JSON, base64, checksums and paths."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kapiserver.api.go_format import go_map, json_text
from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.values import from_json, to_json


def _to_json(value: Any) -> str:
    return json_text(go_map(to_json(value)))


def _to_pretty_json(value: Any) -> str:
    return orjson.dumps(go_map(to_json(value)), option=orjson.OPT_INDENT_2).decode()


def _from_json(text: str) -> Any:
    try:
        return from_json(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None


def _must_from_json(text: str) -> Any:
    try:
        return from_json(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise TemplateError(str(error)) from None


def _base64_decoded(text: str) -> str:
    return base64.b64decode(text, validate=True).decode(errors="replace")


def _base32_decoded(text: str) -> str:
    return base64.b32decode(text).decode(errors="replace")


def _checksum(algorithm: str) -> Callable[[str], str]:
    def run(text: str) -> str:
        return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()

    return run


def _base64_encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _base32_encoded(text: str) -> str:
    return base64.b32encode(text.encode()).decode()


def _adler32(text: str) -> str:
    return str(zlib.adler32(text.encode()))


def _on_path(method: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        return method(text)

    return run


ENCODING: Mapping[str, Callable[..., Any]] = {
    "adler32sum": _adler32,
    "b32dec": _base32_decoded,
    "b32enc": _base32_encoded,
    "b64dec": _base64_decoded,
    "b64enc": _base64_encoded,
    "base": _on_path(posixpath.basename),
    "clean": _on_path(posixpath.normpath),
    "dir": _on_path(lambda path: posixpath.dirname(path) or "."),
    "ext": _on_path(lambda path: posixpath.splitext(path)[1]),
    "fromJson": _from_json,
    "isAbs": lambda path: str(path).startswith("/"),
    "mustFromJson": _must_from_json,
    "mustToJson": _to_json,
    "mustToPrettyJson": _to_pretty_json,
    "sha1sum": _checksum("sha1"),
    "sha256sum": _checksum("sha256"),
    "sha512sum": _checksum("sha512"),
    "toJson": _to_json,
    "toPrettyJson": _to_pretty_json,
    "toRawJson": lambda value: orjson.dumps(go_map(to_json(value))).decode(),
}
