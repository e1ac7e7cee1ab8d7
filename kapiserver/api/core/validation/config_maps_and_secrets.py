"""Validation of config maps and secrets: keys, sizes, types, immutability."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from kapiserver.api import names
from kapiserver.api.accessors import annotations_of
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long
from kapiserver.api.go_format import json_type
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

SIZE_MAX = 1024 * 1024
"""The maximum size of all values together, in bytes."""
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_DATA = Path("data")


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text.endswith("=") - text.endswith("==")


def validate_config_map(obj: Tree) -> Iterator[FieldError]:
    """Validate a config map."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, text in data.items():
        for message in names.config_key(key):
            yield invalid(_DATA[key], key, message)
        if key in binary:
            yield invalid(_DATA[key], key, "duplicate of key present in binaryData")
        size += names.byte_length(text)
    for key, text in binary.items():
        key_path = Path("binaryData")[key]
        yield from validate_format(names.config_key, key, key_path)
        size += _decoded_size(text)
    if size > SIZE_MAX:
        yield too_long(Path("[]"), SIZE_MAX)


def validate_config_map_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated config map."""
    if old.get("immutable"):
        yield from _validate_immutable_data(new, old, ("data", "binaryData"))
    yield from validate_config_map(new)


def _validate_immutable_data(new: Tree, old: Tree, parts: tuple[str, ...]) -> Iterator[FieldError]:
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden(Path("immutable"), detail)
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield forbidden(Path(part), detail)


def validate_secret(obj: Tree) -> Iterator[FieldError]:
    """Validate a secret."""
    data = obj.get("data") or {}
    for key in data:
        yield from validate_format(names.config_key, key, _DATA[key])
    if sum(map(_decoded_size, data.values())) > SIZE_MAX:
        yield too_long(_DATA, SIZE_MAX)
    match obj.get("type"):
        case "kubernetes.io/service-account-token":
            if not annotations_of(obj).get(_ACCOUNT_NAME):
                yield required((Path("metadata") / "annotations")[_ACCOUNT_NAME])
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" as type_:
            yield from _validate_docker_config(data, _DOCKER_KEYS[type_])
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                yield required(_DATA["username"])
                yield required(_DATA["password"])
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield required(_DATA["ssh-privatekey"])
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield required(_DATA[key])


def _validate_docker_config(data: Tree, key: str) -> Iterator[FieldError]:
    if key not in data:
        yield required(_DATA[key])
        return
    from base64 import b64decode  # imported late: few secrets have these types

    detail = _json_object_problem(b64decode(data[key]))
    if detail:
        yield invalid(_DATA[key], "<secret contents redacted>", detail)


def _json_object_problem(text: bytes) -> str:
    """Return why `text` is not a JSON object, in the words of Go's decoder, or "" for an object or
    null."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_INVALID_LITERAL):
            return _json_literal_problem(error.doc[error.pos :], error.msg.split("'")[1])
        character = error.doc[error.pos : error.pos + 1]
        context = next((go for part, go in _ERROR_CONTEXTS if part in error.msg), "")
        return (
            f"invalid character {_quoted(character)} {context}"
            if character and context
            else _UNEXPECTED_END
        )
    if value is None or isinstance(value, dict):
        return ""
    message = f"json: cannot unmarshal {json_type(value)} into Go value"
    return f"{message} of type map[string]interface {{}}"


def _json_literal_problem(text: str, word: str) -> str:
    """Return where `text` differs from the literal that it begins as, in the words of Go's
    decoder."""
    position = next((n for n, letter in enumerate(word) if text[n : n + 1] != letter), len(word))
    character = text[position : position + 1]
    context = f"in literal {word} (expecting '{word[position : position + 1]}')"
    return f"invalid character {_quoted(character)} {context}" if character else _UNEXPECTED_END


_INVALID_LITERAL = "invalid literal, expected "
_UNEXPECTED_END = "unexpected end of JSON input"
_ERROR_CONTEXTS = (
    ("expected a JSON value", "looking for beginning of value"),
    ("expected ':'", "after object key"),
    ("expected ',' or '}'", "after object key:value pair"),
    ("expected ',' or ']'", "after array element"),
    ("expected a string key", "looking for beginning of object key string"),
    ("content after document", "after top-level value"),
)
"""Parts of orjson's messages, and the words of Go's decoder for the same error."""


def _quoted(character: str) -> str:
    return {"'": "'\\''", '"': "'\"'"}.get(character) or "'" + ascii(character)[1:-1] + "'"


def validate_secret_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated secret."""
    yield from immutable(new.get("type") or "", old.get("type") or "", Path("type"))
    if old.get("immutable"):
        yield from _validate_immutable_data(new, old, ("data",))
    yield from validate_secret(new)
