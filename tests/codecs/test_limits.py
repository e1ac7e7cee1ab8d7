"""Limits of request bodies: the number of values, and text that is not UTF-8."""

from __future__ import annotations

import contextlib
import time

import pytest

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.codecs.cbor import encode_value
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import Malformed, TooLarge, WrongValue
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from kapiserver.codecs.protobuf.serializer import write_envelope
from kapiserver.codecs.protobuf.wire import encode_delimited, encode_tag

CODECS = CodecFactory(Scheme())
POD = GroupVersionKind("", "v1", "Pod")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
BODY = 3 << 20


def message(kind: GroupVersionKind, raw: bytes, content_type: str = "") -> bytes:
    return write_envelope(kind, raw, content_type)


def containers(part: bytes) -> bytes:
    return message(POD, encode_delimited(2, part * (BODY // len(part))))


JSON_HEAD = b'{"kind":"Pod","apiVersion":"v1","spec":{"containers":['
CBOR_HEAD = (
    encode_value({"kind": "Pod"}).replace(b"\xa1", b"\xa2", 1) + b"\x44spec\xa1\x4acontainers"
)
MANY = {
    "json objects": (JSON, JSON_HEAD + b"{}," * (1 << 20) + b"{}]}}"),
    "json lists": (JSON, JSON_HEAD + b"[]," * (1 << 20) + b"[]]}}"),
    "json numbers": (JSON, JSON_HEAD + b"1," * (BODY // 2) + b"1]}}"),
    "json text": (JSON, JSON_HEAD + b'"",' * (1 << 20) + b'""]}}'),
    "json escapes": (JSON, JSON_HEAD + b'"\\"",' * (BODY // 5) + b'""]}}'),
    "cbor": (CBOR, CBOR_HEAD + b"\x9a" + (BODY).to_bytes(4, "big") + b"\xa0" * BODY),
    "cbor without an end": (CBOR, CBOR_HEAD + b"\x9f" + b"\xa0" * BODY + b"\xff"),
    "yaml": (YAML, b"spec: {containers: [" + b"{}," * (1 << 20) + b"]}"),
    "protobuf containers": (PROTOBUF, containers(encode_delimited(2, b""))),
    "protobuf labels": (
        PROTOBUF,
        message(POD, encode_delimited(1, encode_delimited(11, b"") * (BODY // 2))),
    ),
    "protobuf numbers": (
        PROTOBUF,
        message(POD, encode_delimited(2, encode_delimited(14, encode_delimited(4, b"\0" * BODY)))),
    ),
    "protobuf packs": (
        PROTOBUF,
        message(
            POD,
            encode_delimited(2, encode_delimited(14, encode_delimited(4, b"\1") * (1 << 20))),
        ),
    ),
    "protobuf unknown": (PROTOBUF, message(POD, (encode_tag(1000, 0) + b"\1") * (1 << 20))),
    "protobuf json": (
        PROTOBUF,
        message(POD, JSON_HEAD + b"{}," * (1 << 20) + b"{}]}}", "application/json"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("media", "data"), MANY.values(), ids=MANY)
def test_too_many_values(media, data):
    """A body with very many small values is an error before it takes much memory or time."""
    before = time.thread_time()
    with pytest.raises(TooLarge, match=f"too many values: at most {MAX_VALUES} are read"):
        CODECS.limited_serializer_for(media).decode(data, defaults=POD)
    assert time.thread_time() - before < 20


QUADRATIC = {
    "a struct in parts": message(
        POD, (encode_delimited(1, encode_delimited(1, b""))) * (BODY // 4)
    ),
    "a group": message(
        POD, encode_tag(1000, 3) + (encode_tag(1, 0) + b"\1") * (1 << 20) + encode_tag(1000, 4)
    ),
    "an envelope": b"k8s\0" + encode_delimited(1, encode_delimited(1, b"")) * (BODY // 4),
}


@pytest.mark.parametrize("data", QUADRATIC.values(), ids=QUADRATIC)
def test_time(data):
    """The time for a message in very many parts is linear in its length."""
    before = time.thread_time()
    with contextlib.suppress(Malformed):
        CODECS.limited_serializer_for(PROTOBUF).decode(data)
    assert time.thread_time() - before < 20


@pytest.mark.parametrize("media", MEDIA_TYPES, ids=lambda media: media.extension)
def test_text_is_not_counted(media):
    """Brackets and commas within text do not count as values."""
    text = '{"a\\\\":[1,2,"x\\\\\\""]},' * 60_000
    tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": {"k\\": text}}
    serializer = CODECS.limited_serializer_for(media)
    assert serializer.decode(serializer.encode(tree)).object == tree


@pytest.mark.parametrize("media", [JSON, CBOR, PROTOBUF], ids=lambda media: media.extension)
def test_own_data_is_not_counted(media):
    """Data that a store or a client decodes may have any number of values."""
    names = [{"name": f"e{index}"} for index in range(MAX_VALUES // 2)]
    item = {"metadata": {}, "secrets": names}
    tree = {
        "kind": "ServiceAccountList", "apiVersion": "v1", "metadata": {}, "items": [item] * 3,
    }  # fmt: skip
    data = CODECS.serializer_for(media).encode(tree)
    assert len(CODECS.serializer_for(media).decode(data).object["items"]) == 3
    with pytest.raises(TooLarge):
        CODECS.limited_serializer_for(media).decode(data)


NOT_TEXT = [
    ({"data": {"key": "\udcff"}}, "cbor: data.key: a byte string for text must be valid UTF-8"),
    ({"metadata": {"finalizers": ["a", "\udcff"]}}, "cbor: metadata.finalizers[1]: "),
    ({"data": {"\udcff": "v"}}, "cbor: a name in data: "),
    ({"kind": "\udcff"}, "cbor: kind: "),
]


@pytest.mark.parametrize(("part", "message"), NOT_TEXT)
def test_not_text(part, message):
    """A byte string that is not UTF-8 is an error in a declared object; the message has the
    path."""
    tree = {"kind": "ConfigMap", "apiVersion": "v1", **part}
    with pytest.raises(WrongValue) as caught:
        CODECS.serializer_for(CBOR).decode(encode_value(tree), defaults=CONFIG_MAP)
    assert str(caught.value).startswith(message)
