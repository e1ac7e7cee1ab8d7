"""Accept and Content-Type: which encoding is chosen, and the words of a refusal."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersionKind
from kapiserver.codecs.errors import NotAcceptable, UnsupportedMediaType
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from kapiserver.codecs.negotiation import (
    media_type_name,
    negotiate_input,
    negotiate_output,
    negotiate_output_stream,
    wants_pretty,
)

ALL = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"

ACCEPT = [
    ("", JSON),
    ("   ", JSON),
    ("*/*", JSON),
    ("*", JSON),
    ("application/*", JSON),
    ("application/json", JSON),
    ("Application/JSON", JSON),
    ("application/json; charset=utf-8", JSON),
    ("application/yaml", YAML),
    ("application/cbor", CBOR),
    ("application/vnd.kubernetes.protobuf", PROTOBUF),
    ("application/vnd.kubernetes.protobuf,application/json", PROTOBUF),
    ("application/vnd.kubernetes.protobuf, */*", PROTOBUF),
    ("*/*, application/vnd.kubernetes.protobuf", PROTOBUF),
    ("application/json;q=0.5, application/yaml", YAML),
    ("application/json;q=0.5,application/yaml;q=0.9,application/cbor;q=0.7", YAML),
    ("text/plain, application/yaml;q=0.1", YAML),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8", JSON),
    ("application/json;q=0, */*", YAML),
    ("nonsense, application/yaml", YAML),
    ("application/yaml;;, application/cbor", CBOR),
    ('application/cbor;note="a,b;c"', CBOR),
    ("application/json;q=high", JSON),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", YAML),
    ("application/json;sv=v2, application/yaml", YAML),
    ("application/yaml;stream=watch, application/json", JSON),
]


@pytest.mark.parametrize(("header", "media"), ACCEPT)
def test_accept(header, media):
    """The most preferred clause that is possible wins; a missing header means JSON."""
    assert negotiate_output(header).media is media


@pytest.mark.parametrize(
    "header", ["text/html", "application/xml;q=1", "application/json;q=0", "json", ",", "a/b/c"]
)
def test_not_acceptable(header):
    """What is not on offer is refused in kube-apiserver's words."""
    with pytest.raises(NotAcceptable) as caught:
        negotiate_output(header)
    assert str(caught.value) == f"only the following media types are accepted: {ALL}"


def test_conversion_is_asked_of_the_endpoint():
    """`as`, `g` and `v` name a kind, and the endpoint says whether it can make one."""
    table = GroupVersionKind("meta.k8s.io", "v1", "Table")
    header = (
        "application/json;as=Table;v=v1;g=meta.k8s.io,"
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
    )
    accepted = negotiate_output(header, allows=lambda media, convert: convert in (None, table))
    assert accepted.convert == table
    assert dict(accepted.parameters) == {"as": "Table", "v": "v1", "g": "meta.k8s.io"}
    assert negotiate_output(header).convert is None


STREAMS = [
    ("", JSON, "application/json"),
    ("*/*", JSON, "application/json"),
    ("application/json;stream=watch", JSON, "application/json"),
    (
        "application/vnd.kubernetes.protobuf;stream=watch",
        PROTOBUF,
        "application/vnd.kubernetes.protobuf;stream=watch",
    ),
    (
        "application/vnd.kubernetes.protobuf",
        PROTOBUF,
        "application/vnd.kubernetes.protobuf;stream=watch",
    ),
    ("application/cbor-seq", CBOR, "application/cbor-seq"),
    ("application/cbor", CBOR, "application/cbor-seq"),
]


@pytest.mark.parametrize(("header", "media", "stream_type"), STREAMS)
def test_streams(header, media, stream_type):
    """A watch has the encoding asked for, and its own Content-Type."""
    accepted = negotiate_output_stream(header)
    assert accepted.media is media
    assert accepted.media.stream_type == stream_type


def test_a_format_without_streams_is_refused_for_a_watch():
    """YAML has no frames; the message lists the streams."""
    with pytest.raises(NotAcceptable) as caught:
        negotiate_output_stream("application/yaml")
    assert str(caught.value) == (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq"
    )


CONTENT_TYPES = [
    ("", JSON),
    ("application/json", JSON),
    ("APPLICATION/JSON; charset=UTF-8", JSON),
    (' application/json ; charset="utf-8"', JSON),
    ("application/yaml", YAML),
    ("application/cbor", CBOR),
    ("application/vnd.kubernetes.protobuf;type=x", PROTOBUF),
]


@pytest.mark.parametrize(("header", "media"), CONTENT_TYPES)
def test_content_type(header, media):
    """A body is what its header says, JSON when it says nothing."""
    assert negotiate_input(header) is media


@pytest.mark.parametrize("header", ["text/plain", "json", "application/json; charset", "*/*", ";"])
def test_unsupported_content_type(header):
    """Other bodies are refused in kube-apiserver's words."""
    with pytest.raises(UnsupportedMediaType) as caught:
        negotiate_input(header)
    assert str(caught.value) == (
        "the body of the request was in an unknown format - accepted media types include: " + ALL
    )


PRETTY = [
    ("", "curl/8.5.0", True),
    ("", "Wget/1.21", True),
    ("", "Mozilla/5.0 (X11)", True),
    ("", "kubectl/v1.34.0", False),
    ("", "", False),
    ("1", "kubectl", True),
    ("true", "", True),
    ("0", "curl/8.5.0", False),
    ("false", "curl/8.5.0", False),
    ("yes", "curl/8.5.0", False),
]


@pytest.mark.parametrize(("query", "agent", "wanted"), PRETTY)
def test_pretty(query, agent, wanted):
    """`?pretty=` decides, or else whether a human seems to read."""
    assert wants_pretty(query, agent) is wanted


@settings(max_examples=200)
@given(st.one_of(st.text(max_size=60), st.text('application/json;q=0.1, "*\\', max_size=60)))
def test_any_header_is_answered(header):
    """No header breaks negotiation: a media type or NotAcceptable, and a name or none."""
    with contextlib.suppress(NotAcceptable):
        assert negotiate_output(header).media in MEDIA_TYPES
    name = media_type_name(header)
    assert name == name.lower()
