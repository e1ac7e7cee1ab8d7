"""The media types this server speaks: one line each.

To add one: a serializer module here in `codecs/` and a line below. The order is that of
preference: the first is taken where a client has no opinion, and messages list them in it.
Knows no request. Mirrors the SerializerInfo table of k8s.io/apimachinery's codec factory.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.framing import CBOR_SEQUENCE, JSON_LINES, LENGTH_PREFIXED, Framing
from kapiserver.codecs.serializer import Serializer


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """One encoding of objects.

    name            the MIME type
    extension       its short name, as files and `kapiserver recode` call it
    serializer      the class that reads and writes it, `module:Class` below `codecs`; loaded at
                    first use, so that a server which speaks no YAML never loads it
    framing         how watch events follow each other; None where it has no streams
    stream_name     what Accept and the 406 text call its stream
    stream_type     the Content-Type of its stream
    pretty          whether there is a form for human eyes beside the compact one
    """

    name: str
    extension: str
    serializer: str
    framing: Framing | None = None
    stream_name: str = ""
    stream_type: str = ""
    pretty: bool = False

    def make_serializer(self, scheme: Scheme, **bounds: int) -> Serializer:
        """The serializer of this media type for one scheme; `max_values` bounds what it reads."""
        module, _, name = self.serializer.partition(":")
        made: Serializer = getattr(importlib.import_module(f"kapiserver.codecs.{module}"), name)(
            scheme, **bounds
        )
        return made


JSON = MediaType(
    name="application/json",
    extension="json",
    serializer="json:JSONSerializer",
    framing=JSON_LINES,
    stream_name="application/json;stream=watch",
    stream_type="application/json",
    pretty=True,
)
YAML = MediaType(
    name="application/yaml",
    extension="yaml",
    serializer="yaml:YAMLSerializer",
)
PROTOBUF = MediaType(
    name="application/vnd.kubernetes.protobuf",
    extension="protobuf",
    serializer="protobuf:ProtobufSerializer",
    framing=LENGTH_PREFIXED,
    stream_name="application/vnd.kubernetes.protobuf;stream=watch",
    stream_type="application/vnd.kubernetes.protobuf;stream=watch",
)
CBOR = MediaType(
    name="application/cbor",
    extension="cbor",
    serializer="cbor:CBORSerializer",
    framing=CBOR_SEQUENCE,
    stream_name="application/cbor-seq",
    stream_type="application/cbor-seq",
)

MEDIA_TYPES = (JSON, YAML, PROTOBUF, CBOR)
