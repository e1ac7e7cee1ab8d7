"""The messages of KMS v2 in the Protobuf wire format.

`EncryptedObject` is what the store holds after the prefix of a KMS provider; the others are the
requests and responses of a KMS plugin. Bytes and errors are kube-apiserver's, so that each server
reads what the other stored. Mirrors api.proto of k8s.io/kms/apis/v2, and api.proto and envelope.go
of apiserver/pkg/storage/value/encrypt/envelope/kmsv2. Knows no connection and no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from kapiserver.api.errors import Path
from kapiserver.api.go_format import join_errors
from kapiserver.api.metadata_validation import validate_domain
from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.protobuf.wire import (
    BYTES,
    VARINT,
    encode_delimited,
    encode_tag,
    encode_varint,
    read_varint,
    skip_field,
)

AES_GCM_KEY, HKDF_SEED = 0, 1
"""EncryptedDEKSourceType: what the plugin encrypted, a key or the seed of keys."""

MAX_KEY_ID_BYTES = 1024
MAX_SOURCE_BYTES = 1024
MAX_ANNOTATION_BYTES = 32 * 1024
"""Limit of the bytes of all names and values of the annotations."""

_MAX_ANNOTATIONS = 1000
_DATA_TAG = b"\x0a"
_SOURCE_TYPE_TAG = encode_tag(5, VARINT)

Annotations: TypeAlias = Mapping[str, bytes]
"""What a plugin stores with a key, by a fully qualified domain name."""

_Field: TypeAlias = tuple[int, int | bytes]


class InvalidMessage(ValueError):
    """A message cannot be decoded or breaks a limit; the text is kube-apiserver's."""


class KeySource(Struct, frozen=True):
    """Where the key of a stored value is from: all of an EncryptedObject but its data.

    key_id       the plugin's key, with which `encrypted` was encrypted
    encrypted    the encrypted key, or the seed of keys
    source_type  AES_GCM_KEY or HKDF_SEED
    """

    key_id: str
    encrypted: bytes
    annotations: Annotations = field(default_factory=dict)
    source_type: int = HKDF_SEED

    def encode(self) -> bytes:
        """Return the fields of an EncryptedObject that follow its data."""
        parts = [encode_delimited(2, self.key_id.encode()), encode_delimited(3, self.encrypted)]
        parts += _encode_annotations(4, self.annotations)
        if self.source_type:
            parts.append(_SOURCE_TYPE_TAG + encode_varint(self.source_type))
        return b"".join(parts)

    def check(self) -> None:
        """Raise InvalidMessage if kube-apiserver refuses a value with this source."""
        if self.source_type not in (AES_GCM_KEY, HKDF_SEED):
            raise InvalidMessage(f"unknown encryptedDEKSourceType: {self.source_type}")
        problem = _source_problem(self.encrypted)
        if problem:
            raise InvalidMessage(f"failed to validate encrypted DEK source: {problem}")
        problem = key_id_problem(self.key_id)
        if problem:
            raise InvalidMessage(f"failed to validate key id: {problem}")
        problem = _annotations_problem(self.annotations)
        if problem:
            raise InvalidMessage(f"failed to validate annotations: {problem}")


class StatusResponse(Struct, frozen=True):
    """What a plugin reports of itself; `healthz` is "ok" if it works."""

    version: str = ""
    healthz: str = ""
    key_id: str = ""


def key_id_problem(key_id: str) -> str:
    """Return what is wrong with a key ID, "" if nothing is."""
    if not key_id:
        return "keyID is empty"
    size = len(key_id.encode())
    if size > MAX_KEY_ID_BYTES:
        return f"keyID is {size} bytes, which exceeds the max size of {MAX_KEY_ID_BYTES}"
    return ""


def _source_problem(encrypted: bytes) -> str:
    if not encrypted:
        return "encrypted DEK source is empty"
    if len(encrypted) > MAX_SOURCE_BYTES:
        return (
            f"encrypted DEK source is {len(encrypted)} bytes, which exceeds the max size of "
            f"{MAX_SOURCE_BYTES}"
        )
    return ""


def _annotations_problem(annotations: Annotations) -> str:
    place = Path("annotations")
    problems = [str(error) for name in annotations for error in validate_domain(name, place)]
    size = sum(len(name.encode()) + len(value) for name, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        problems.append(
            f"total size of annotations is {size}, which exceeds the max size of "
            f"{MAX_ANNOTATION_BYTES}"
        )
    return join_errors(problems)


# Stored values.


def encode_stored(data: bytes, source: bytes) -> bytes:
    """Return an EncryptedObject: encrypted data, and the encoded source of its key."""
    return b"%b%b%b%b" % (_DATA_TAG, encode_varint(len(data)), data, source)


def split_stored(stored: bytes) -> tuple[bytes, bytes]:
    """Return the data of an EncryptedObject and the encoded rest, as `encode_stored` joins them.

    Raises InvalidMessage if the message does not begin with data, as kube-apiserver writes it.
    """
    try:
        length, start = read_varint(stored, 1)
    except (IndexError, Malformed) as error:
        raise InvalidMessage(f"proto: cannot parse invalid wire-format data: {error}") from None
    end = start + length
    if stored[:1] != _DATA_TAG or not length or end > len(stored):
        raise InvalidMessage("encrypted data is empty")
    return stored[start:end], stored[end:]


def decode_source(encoded: bytes) -> KeySource:
    """Decode and check what `KeySource.encode` returns. Raises InvalidMessage."""
    key_id, encrypted, source_type = "", b"", AES_GCM_KEY
    annotations: dict[str, bytes] = {}
    for number, value in _fields(encoded):
        if number == 2:
            key_id = _text(value)
        elif number == 3:
            encrypted = _bytes(value)
        elif number == 4:
            _add_annotation(annotations, _bytes(value))
        elif number == 5:
            source_type = _number(value)
    source = KeySource(key_id, encrypted, annotations, source_type)
    source.check()
    return source


# Calls of a plugin.


def encode_encrypt_request(plaintext: bytes, uid: str) -> bytes:
    """Return an EncryptRequest."""
    return encode_delimited(1, plaintext) + encode_delimited(2, uid.encode())


def encode_decrypt_request(source: KeySource, uid: str) -> bytes:
    """Return a DecryptRequest."""
    parts = [
        encode_delimited(1, source.encrypted),
        encode_delimited(2, uid.encode()),
        encode_delimited(3, source.key_id.encode()),
        *_encode_annotations(4, source.annotations),
    ]
    return b"".join(parts)


def decode_status_response(data: bytes) -> StatusResponse:
    """Decode a StatusResponse. Raises InvalidMessage."""
    fields = dict(_fields(data))
    return StatusResponse(*(_text(fields.get(number, b"")) for number in (1, 2, 3)))


def decode_encrypt_response(data: bytes) -> KeySource:
    """Decode and check an EncryptResponse, as the source of a seed. Raises InvalidMessage."""
    encrypted, key_id = b"", ""
    annotations: dict[str, bytes] = {}
    for number, value in _fields(data):
        if number == 1:
            encrypted = _bytes(value)
        elif number == 2:
            key_id = _text(value)
        elif number == 3:
            _add_annotation(annotations, _bytes(value))
    source = KeySource(key_id, encrypted, annotations)
    source.check()
    return source


def decode_decrypt_response(data: bytes) -> bytes:
    """Return the plaintext of a DecryptResponse. Raises InvalidMessage."""
    return _bytes(dict(_fields(data)).get(1, b""))


# The wire format.


def _encode_annotations(number: int, annotations: Annotations) -> Iterator[bytes]:
    for name, value in sorted(annotations.items()):
        pair = encode_delimited(1, name.encode()) + encode_delimited(2, value)
        yield encode_delimited(number, pair)


def _add_annotation(annotations: dict[str, bytes], data: bytes) -> None:
    pair = dict(_fields(data))
    annotations[_text(pair.get(1, b""))] = _bytes(pair.get(2, b""))
    if len(annotations) > _MAX_ANNOTATIONS:
        raise InvalidMessage(f"a key has more than {_MAX_ANNOTATIONS} annotations")


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield the numbers and values of the varints and byte strings. Raises InvalidMessage."""
    try:
        at = 0
        while at < len(data):
            tag, at = read_varint(data, at)
            value: int | bytes
            if tag & 7 == BYTES:
                length, at = read_varint(data, at)
                value = data[at : at + length]
                at += length
            elif tag & 7 == VARINT:
                value, at = read_varint(data, at)
            else:
                at = skip_field(data, at, tag, {})
                continue
            if at > len(data):
                raise IndexError
            yield tag >> 3, value
    except (IndexError, Malformed) as error:
        raise InvalidMessage(f"proto: cannot parse invalid wire-format data: {error}") from None


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise InvalidMessage("proto: cannot parse invalid wire-format data: wrong wire type")
    return value


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise InvalidMessage("proto: cannot parse invalid wire-format data: wrong wire type")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidMessage("string field contains invalid UTF-8") from None
