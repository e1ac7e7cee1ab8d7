"""The media types this server speaks, in order of preference.

The server picks the first one when a client states no preference, and error messages list them in
this order. To add one: write a serializer module in `codecs/` and a `MediaType` below.

Late loading: the table holds loaders, `lazy("module:name")` (`api/lazy.py`), so that a server that
speaks no YAML never imports it. Every literal table of late-loaded code in this project uses this
form.

Knows no request. Mirrors the SerializerInfo table of k8s.io/apimachinery's codec factory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from kapiserver.api.lazy import lazy
from kapiserver.api.scheme import Scheme
from kapiserver.codecs.framing import CBOR_SEQUENCE, JSON_LINES, LENGTH_PREFIXED, Framing
from kapiserver.codecs.limits import UNLIMITED
from kapiserver.codecs.serializer import Serializer


class MakeSerializer(Protocol):
    """A serializer class, as the table sees it."""

    def __call__(self, scheme: Scheme, *, max_values: int) -> Serializer:
        """Return a serializer for one scheme that decodes at most that many values per body."""


class MediaType(Struct, frozen=True, kw_only=True, eq=False):
    """One encoding of objects, equal to itself only: each request looks up a tuple of them.

    name            the MIME type
    extension       the file extension, which is also the format's name in `kapiserver recode`
    load            imports the serializer class and returns it
    framing         how watch events are delimited; None if the type has no stream form
    stream_name     the name of the stream form in Accept headers and in 406 messages
    stream_type     the Content-Type of the stream form
    pretty          whether there is an indented form for humans
    """

    name: str
    extension: str
    load: Callable[[], MakeSerializer]
    framing: Framing | None = None
    stream_name: str = ""
    stream_type: str = ""
    pretty: bool = False

    def make_serializer(self, scheme: Scheme, *, max_values: int = UNLIMITED) -> Serializer:
        """Return a new serializer that decodes at most `max_values` values per body."""
        return self.load()(scheme, max_values=max_values)


JSON = MediaType(
    name="application/json",
    extension="json",
    load=lazy("kapiserver.codecs.json:JSONSerializer"),
    framing=JSON_LINES,
    stream_name="application/json;stream=watch",
    stream_type="application/json",
    pretty=True,
)
YAML = MediaType(
    name="application/yaml",
    extension="yaml",
    load=lazy("kapiserver.codecs.yaml:YAMLSerializer"),
)
PROTOBUF = MediaType(
    name="application/vnd.kubernetes.protobuf",
    extension="protobuf",
    load=lazy("kapiserver.codecs.protobuf.serializer:ProtobufSerializer"),
    framing=LENGTH_PREFIXED,
    stream_name="application/vnd.kubernetes.protobuf;stream=watch",
    stream_type="application/vnd.kubernetes.protobuf;stream=watch",
)
CBOR = MediaType(
    name="application/cbor",
    extension="cbor",
    load=lazy("kapiserver.codecs.cbor:CBORSerializer"),
    framing=CBOR_SEQUENCE,
    stream_name="application/cbor-seq",
    stream_type="application/cbor-seq",
)

MEDIA_TYPES = (JSON, YAML, PROTOBUF, CBOR)
