"""Every declared kind round-trips through every encoding."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from kapiserver.codecs.protobuf.serializer import write_envelope
from tests.trees import filled, kinds, kinds_by_version, objects

SCHEME = Scheme()
CODECS = CodecFactory(SCHEME)
KINDS = sorted(kinds(SCHEME))
VERSIONS = kinds_by_version(SCHEME)
WIRE = frozenset(kinds(SCHEME, wire=True))


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_filled(version):
    """An object with every field set is unchanged after conversion between any two encodings."""
    for kind in VERSIONS[version]:
        head = {"kind": kind.kind, "apiVersion": str(version)}
        tree = head | filled(SCHEME.type_of(kind))
        for media in _media_types(kind):
            decoded = CODECS.serializer_for(media).decode(CODECS.serializer_for(media).encode(tree))
            assert decoded.object == tree, (kind, media.name)
            assert list(decoded.object) == list(tree), (kind, media.name)
            assert decoded.strict_errors == (), (kind, media.name)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_empty(version):
    """An object without fields decodes to Go's zero value in every encoding and round-trips."""
    for kind in VERSIONS[version]:
        head = {"kind": kind.kind, "apiVersion": str(version)}
        empty = CODECS.serializer_for(JSON).decode(json.dumps(head).encode()).object
        assert CODECS.serializer_for(YAML).decode(json.dumps(head).encode()).object == empty, kind
        if kind in WIRE:
            decoded = CODECS.serializer_for(PROTOBUF).decode(write_envelope(kind, b"")).object
            assert json.dumps(decoded) == json.dumps(empty), kind
        for media in _media_types(kind):
            serializer = CODECS.serializer_for(media)
            decoded = serializer.decode(serializer.encode(empty)).object
            assert json.dumps(decoded) == json.dumps(empty), (kind, media.name)


def _media_types(kind):
    return (JSON, YAML, CBOR, *((PROTOBUF,) if kind in WIRE else ()))


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("kind", KINDS, ids=map(str, KINDS))
@given(data=st.data())
def test_round_trips(kind, data):
    """A random object of any kind is unchanged after conversion through all encodings in turn. YAML
    and CBOR sort the keys of untyped values."""
    tree = decoded = data.draw(objects(SCHEME, kind))
    for media in (*MEDIA_TYPES, JSON):
        if media is PROTOBUF and kind not in WIRE:
            continue
        serializer = CODECS.serializer_for(media)
        written = serializer.encode(decoded)
        decoded = serializer.decode(written).object
        assert serializer.encode(decoded) == written, media.name
    assert json.dumps(decoded, sort_keys=True) == json.dumps(tree, sort_keys=True)
