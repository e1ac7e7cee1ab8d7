"""Accept and Content-Type: the chosen encodings, and the messages of errors."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.group import GroupVersionKind
from kapiserver.codecs.errors import NotAcceptable, UnsupportedMediaType
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML
from kapiserver.codecs.negotiation import (
    check_stream,
    media_type_name,
    negotiate_input,
    negotiate_output,
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
    ("application/json;q=0, */*", JSON),
    ("application/json;q=0", JSON),
    ("application/json;q=high, application/yaml;q=0.1", YAML),
    ("*/*, application/yaml;q=0.1", YAML),
    ("application/yaml;q=0.1, */*;q=0.2", JSON),
    ("nonsense, application/yaml", YAML),
    ("application/yaml;;, application/cbor", YAML),
    ("application/json;q=high", JSON),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", YAML),
    ("application/json;sv=v2, application/yaml", YAML),
    ("application/yaml;stream=watch, application/json", JSON),
]


@pytest.mark.parametrize(("header", "media"), ACCEPT)
def test_accept(header, media):
    """The supported clause with the highest preference wins. Without a header, the response is
    JSON."""
    assert negotiate_output(header).media is media


@pytest.mark.parametrize(
    "header",
    [
        "text/html",
        "application/xml;q=1",
        "json",
        ",",
        "a/b/c",
        "Application/JSON",
        'application/json;as="a,b"',
    ],
)
def test_not_acceptable(header):
    """An unsupported media type is an error with kube-apiserver's message."""
    with pytest.raises(NotAcceptable) as caught:
        negotiate_output(header)
    assert str(caught.value) == f"only the following media types are accepted: {ALL}"


def test_many_parameters():
    """A media range with very many parameters does not count, so that parsing it takes no time."""
    assert negotiate_output(f"{JSON.name}{';a=b' * 99}", MEDIA_TYPES).media is JSON
    with pytest.raises(NotAcceptable):
        negotiate_output(f"{JSON.name}{';a=b' * 101}", MEDIA_TYPES)


def test_conversion():
    """`as`, `g` and `v` name a kind; the endpoint decides whether it supports the kind."""
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
    """A watch has the requested encoding, with the Content-Type of its streams."""
    accepted = negotiate_output(header)
    check_stream(accepted.media)
    assert accepted.media is media
    assert accepted.media.stream_type == stream_type


def test_a_format_without_streams_is_refused_for_a_watch():
    """A watch in YAML is an error that lists the media types of streams."""
    with pytest.raises(NotAcceptable) as caught:
        check_stream(YAML)
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
    """The Content-Type decides the format of a body; without the header, it is JSON."""
    assert negotiate_input(header) is media


@pytest.mark.parametrize("header", ["text/plain", "json", "application/json; charset", "*/*", ";"])
def test_unsupported_content_type(header):
    """An unsupported Content-Type is an error with kube-apiserver's message."""
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


@pytest.mark.parametrize(("query", "agent", "expected"), PRETTY)
def test_pretty(query, agent, expected):
    """`?pretty=` decides about indentation, or else the User-Agent."""
    assert wants_pretty(query, agent) is expected


@settings(max_examples=200)
@given(st.one_of(st.text(max_size=60), st.text('application/json;q=0.1, "*\\', max_size=60)))
def test_any_header(header):
    """For any header, negotiation returns a media type or raises NotAcceptable."""
    with contextlib.suppress(NotAcceptable):
        assert negotiate_output(header).media in MEDIA_TYPES
    name = media_type_name(header)
    assert name == name.lower()
