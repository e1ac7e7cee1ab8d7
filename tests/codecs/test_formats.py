"""Every declared kind says the same in every encoding."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from tests.trees import filled, kinds, objects

SCHEME = Scheme()
CODECS = CodecFactory(SCHEME)
KINDS = sorted(kinds(SCHEME))
WIRE = frozenset(kinds(SCHEME, wire=True))


@pytest.mark.parametrize("kind", KINDS, ids=map(str, KINDS))
def test_filled(kind):
    """An object with every field set goes from any encoding into any other unchanged."""
    tree = {
        "kind": kind.kind,
        "apiVersion": str(kind.group_version),
        **filled(SCHEME.type_of(kind)),
    }
    for media in (JSON, YAML, CBOR, *((PROTOBUF,) if kind in WIRE else ())):
        decoded = CODECS.serializer_for(media).decode(CODECS.serializer_for(media).encode(tree))
        assert decoded.object == tree, media.name
        assert list(decoded.object) == list(tree), media.name
        assert decoded.strict_errors == (), media.name


STORED = ("Pod", "Deployment", "HorizontalPodAutoscaler", "Service", "ConfigMap", "Secret")
SOME = [kind for kind in KINDS if kind.kind in STORED]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOME).flatmap(lambda kind: objects(SCHEME, kind)))
def test_round_trips(tree):
    """A random object is the same after the way through all encodings, one after the other."""
    found = tree
    for media in (*MEDIA_TYPES, JSON):
        serializer = CODECS.serializer_for(media)
        data = serializer.encode(found)
        found = serializer.decode(data).object
        assert serializer.encode(found) == data, media.name
    assert JSON_BYTES(found) == JSON_BYTES(tree)


JSON_BYTES = CODECS.serializer_for(JSON).encode
