"""Serializers, codecs and the codec factory with declared types."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import (
    CodecError,
    Malformed,
    MissingKind,
    UnknownKind,
    UnsupportedMediaType,
    WrongValue,
)
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from kapiserver.codecs.recode import recode
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage

SCHEME = Scheme()
CODECS = CodecFactory(SCHEME)
POD_KIND = GroupVersionKind("", "v1", "Pod")
V1 = GroupVersion("", "v1")
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "labels": {"x": "<1>"}},
    "spec": {"containers": [{"name": "c", "image": "i:1.5", "resources": {}}]},
    "status": {},
}
MEDIA = [media.extension for media in MEDIA_TYPES]


@pytest.mark.parametrize("media", MEDIA_TYPES, ids=MEDIA)
def test_round_trip(media):
    """An object decodes from every encoding, with the format given or recognized, and keeps the
    order of its keys."""
    serializer = CODECS.serializer_for(media)
    data = serializer.encode(POD)
    assert CODECS.recognize_media_type(data) is media
    for reader in (serializer, CODECS.universal_deserializer):
        decoded = reader.decode(data)
        assert decoded.object == POD
        assert list(decoded.object) == list(POD)
        assert decoded.kind == POD_KIND
        assert decoded.strict_errors == ()
        assert reader.encode(decoded.object)
    assert CODECS.serializer_for(media) is serializer


def test_indentation():
    """Compact JSON ends with a newline, indented JSON does not."""
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}
    assert CODECS.serializer_for(JSON).encode(obj) == (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}\n'
    )
    assert CODECS.pretty_serializer_for(JSON).encode(obj) == (
        b'{\n  "kind": "ConfigMap",\n  "apiVersion": "v1",\n  "metadata": {\n'
        b'    "name": "x"\n  }\n}'
    )
    assert CODECS.pretty_serializer_for(CBOR) is CODECS.serializer_for(CBOR)


TEXTS = [(JSON, b"{%s}"), (YAML, b"{%s}")]


@pytest.mark.parametrize(("media", "form"), TEXTS, ids=["json", "yaml"])
def test_defaults_complete_the_kind(media, form):
    """The defaults supply a missing kind or apiVersion; those in the data take precedence."""
    read = CODECS.serializer_for(media).decode
    assert read(form % b"", defaults=POD_KIND).kind == POD_KIND
    assert read(form % b'"kind": "Node"', defaults=POD_KIND).kind.kind == "Node"
    apps = GroupVersionKind("apps", "v1", "Deployment")
    assert read(form % b'"kind": "Deployment"', defaults=apps).kind == apps
    assert read(form % b'"apiVersion": "v1", "kind": "Pod"', defaults=apps).kind == POD_KIND
    assert read(b"null", defaults=POD_KIND).object["kind"] == "Pod"


REFUSED = [
    (b"{}", MissingKind, "Object 'Kind' is missing in '{}'"),
    (b'{"kind":"Pod"}', MissingKind, """Object 'apiVersion' is missing in '{"kind":"Pod"}'"""),
    (
        b'{"kind":"Foo","apiVersion":"v1"}',
        UnknownKind,
        'no kind "Foo" is registered for version "v1"',
    ),
    (
        b'{"kind":"Pod","apiVersion":"v9"}',
        UnknownKind,
        'no kind "Pod" is registered for version "v9"',
    ),
    (b'{"kind":"Pod","apiVersion":"a/b/c"}', WrongValue, "unexpected GroupVersion string: a/b/c"),
    (
        b'{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/__internal"}',
        UnknownKind,
        'no kind "HorizontalPodAutoscaler" is registered for version "autoscaling/__internal"',
    ),
    (
        b"{",
        Malformed,
        "couldn't get version/kind; json parse error: unexpected end of JSON input",
    ),
    (
        b'{"kind":1}',
        WrongValue,
        "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go "
        "struct field .kind of type string",
    ),
    (
        b"[]",
        WrongValue,
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value "
        'of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
        '"json:\\"kind,omitempty\\"" }',
    ),
]


@pytest.mark.parametrize(
    ("data", "error", "message"), REFUSED, ids=[repr(d) for d, _, _ in REFUSED]
)
def test_refused(data, error, message):
    """Data that is not an object is an error with kube-apiserver's message."""
    with pytest.raises(error) as caught:
        CODECS.serializer_for(JSON).decode(data)
    assert type(caught.value) is error
    assert str(caught.value) == message


def test_error_has_kind():
    """An error after the kind is known has the kind, for the server's message."""
    with pytest.raises(WrongValue) as caught:
        CODECS.serializer_for(JSON).decode(b'{"spec":{"containers":"x"}}', defaults=POD_KIND)
    assert caught.value.kind == POD_KIND


STRICT = (
    b'{"kind":"Pod","apiVersion":"v1","unknown1":1,"unknown1":2,'
    b'"metadata":{"name":"a","name":"b"},'
    b'"spec":{"containers":[{"name":"c","nested":{"a":1,"a":2},"image":"x","image":"y"}],'
    b'"containerz":[]}}'
)


def test_strict_errors_in_json():
    """Unknown and duplicate fields are reported with their paths, in the order of the text.
    Duplicates within unknown fields are not reported."""
    decoded = CODECS.serializer_for(JSON).decode(STRICT)
    assert decoded.strict_errors == (
        'unknown field "unknown1"',
        'duplicate field "metadata.name"',
        'unknown field "spec.containers[0].nested"',
        'duplicate field "spec.containers[0].image"',
        'unknown field "spec.containerz"',
    )
    assert decoded.object["metadata"]["name"] == "b"


def test_strict_errors_in_yaml():
    """YAML reports duplicate fields by line, then unknown fields by path."""
    data = b"kind: Pod\napiVersion: v1\nfoo: 1\nmetadata:\n  name: a\n  name: b\n"
    assert CODECS.serializer_for(YAML).decode(data).strict_errors == (
        'yaml: unmarshal errors:\n  line 6: key "name" already set in map',
        'unknown field "foo"',
    )


def test_strict_errors_in_cbor():
    """CBOR reports unknown fields; field names are case-sensitive."""
    data = CODECS.serializer_for(CBOR).encode({"kind": "Pod", "apiVersion": "v1", "Spec": {}})
    assert CODECS.serializer_for(CBOR).decode(data).strict_errors == ('unknown field "Spec"',)


@pytest.mark.parametrize("media", [PROTOBUF, CBOR, JSON], ids=["protobuf", "cbor", "json"])
def test_decode_from_storage(media):
    """Stored values may have any encoding, recognized by their first bytes."""
    assert decode_from_storage(CODECS, CODECS.serializer_for(media).encode(POD)) == POD


def test_encode_for_storage():
    """Declared kinds are stored as Protobuf. YAML is not a storage encoding."""
    assert encode_for_storage(CODECS, POD).startswith(b"k8s\0")
    with pytest.raises(Malformed):
        decode_from_storage(CODECS, b"kind: Pod")


@pytest.mark.parametrize("source", MEDIA_TYPES, ids=MEDIA)
@pytest.mark.parametrize("target", MEDIA_TYPES, ids=MEDIA)
def test_recode(source, target):
    """recode converts between any two encodings, named by extension or by media type. The source
    format can be recognized."""
    data = CODECS.serializer_for(source).encode(POD)
    expected = CODECS.serializer_for(target).encode(POD)
    assert recode(data, source.extension, target.name, codecs=CODECS) == expected
    assert recode(data, None, target.extension, codecs=CODECS) == expected


MANY = b"kind: ConfigMap\napiVersion: v1\n---\nkind: Secret\napiVersion: v1\n---\n"


def test_recode_documents():
    """Each document of a YAML stream becomes one object."""
    json_lines = recode(MANY, None, "json", codecs=CODECS)
    assert [line[:17] for line in json_lines.splitlines()] == [
        b'{"kind":"ConfigMa',
        b'{"kind":"Secret",',
    ]
    recoded = recode(MANY, "yaml", "yaml", codecs=CODECS)
    assert recoded.count(b"---\n") == 1
    assert recode(recoded, None, "json", codecs=CODECS) == json_lines
    assert recode(MANY, None, "cbor", codecs=CODECS).count(b"\xd9\xd9\xf7") == 2


def test_recode_without_a_type():
    """recode works for undeclared kinds, except to Protobuf. Other media types are an error."""
    data = b'{"kind":"Foo","apiVersion":"example.com/v1","spec":{"x":1.5,"y":null}}\n'
    cbor_data = recode(data, None, "cbor", codecs=CODECS)
    assert b"spec" in cbor_data
    assert b'"spec":{"x":1.5,"y":null}' in recode(cbor_data, None, "json", codecs=CODECS)
    with pytest.raises(UnknownKind):
        recode(data, None, "protobuf", codecs=CODECS)
    with pytest.raises(UnsupportedMediaType):
        recode(data, None, "xml", codecs=CODECS)


HEADS = [
    b"",
    b"k8s\0",
    b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12",
    b"\xd9\xd9\xf7",
    b"\xa2DkindCPodJapiVersionBv1",
    b'{"kind":"Pod","apiVersion":"v1",',
    b"kind: Pod\napiVersion: v1\n",
]


@settings(max_examples=200)
@given(st.sampled_from(HEADS), st.binary(max_size=60), st.sampled_from(MEDIA_TYPES))
def test_any_bytes(head, data, media):
    """Any bytes in any encoding decode to an object or raise CodecError."""
    for reader in (CODECS.serializer_for(media), CODECS.universal_deserializer):
        with contextlib.suppress(CodecError):
            decoded = reader.decode(head + data, defaults=POD_KIND)
            for target in MEDIA_TYPES:
                CODECS.serializer_for(target).encode(decoded.object)


@pytest.mark.parametrize("media", MEDIA_TYPES, ids=MEDIA)
def test_truncated(media):
    """A truncated object decodes to an object or raises CodecError."""
    data = CODECS.serializer_for(media).encode(POD)
    for length in range(len(data)):
        with contextlib.suppress(CodecError):
            CODECS.serializer_for(media).decode(data[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"kind: ControllerRevision\napiVersion: apps/v1\ndata: {bb: 1, a: {d: 1, c: 2}}\n",
        b"\xd9\xd9\xf7\xa3DkindRControllerRevisionJapiVersionGapps/v1Ddata\xa2Bbb\x01Aa\xa2Ad\x01Ac\x02",
    ],
    ids=["yaml", "cbor"],
)
def test_untyped_values_are_sorted(data):
    """Keys of untyped values from YAML and CBOR are sorted, as Go decodes them into maps."""
    assert b'"data":{"a":{"c":2,"d":1},"bb":1}' in recode(data, None, "json", codecs=CODECS)
