"""The record of one request that a test server received: user, verb, target, status, body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from kapiserver.api.group import GroupVersion
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.negotiation import negotiate_input

MAX_BODY_BYTES = 64 << 10
"""Bytes kept of one body."""


class RequestRecord(Struct, kw_only=True, eq=False):
    """One request.

    number          1 for the first request of the server
    time            when it came, by the server's clock, in seconds since the epoch
    user            the name of the user; of the impersonated user, if there is one
    impersonator    the user who impersonates, or ""
    user_agent      the header
    verb            get, list, watch, create, update, patch, delete, deletecollection; of requests
                    for no resource the method in lower case
    uri             path and query
    resource        plural name, with the group: `pods`, `deployments.apps`; "" for other requests
    subresource     `status`, `scale`, ... or ""
    namespace, name of the path, "" if it has none
    status          HTTP status; None while there is no response and while a stream is open, 0 if
                    the connection was dropped
    seconds         real seconds until the response was made or the stream had ended; None before
    content_type    the media type of the body
    data            the first MAX_BODY_BYTES of the body
    faults          numbers of the faults that were injected
    decode          returns the JSON of `data`. Raises CodecError, ValueError
    """

    number: int
    time: float
    uri: str
    verb: str
    user: str = ""
    impersonator: str = ""
    user_agent: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    status: int | None = None
    seconds: float | None = None
    content_type: str = ""
    data: bytes = b""
    faults: list[int] = field(default_factory=list)
    decode: Callable[[bytes], Any] = lambda _: None

    @property
    def body(self) -> Any:
        """The object or patch that the client sent, as JSON; None if there is none, or it was
        malformed or longer than MAX_BODY_BYTES."""
        try:
            return self.decode(self.data) if self.data else None
        except (CodecError, ValueError):
            return None

    @property
    def object_name(self) -> str:
        """The name in the path, or that of the object to create; "" if the server generates it."""
        return self.name or (name_in_body(self.body) if self.verb == "create" else "")

    @property
    def target(self) -> str:
        """Resource and object: `deployments.apps/status default/web`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        path = "/".join(part for part in (self.namespace, self.object_name) if part)
        return " ".join(part for part in (resource, path) if part) or self.uri

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON: all fields, `time` in RFC 3339, and `body`."""
        names = (
            "number", "user", "impersonator", "user_agent", "verb", "uri", "resource",
            "subresource", "namespace", "name", "status", "seconds", "content_type", "faults",
        )  # fmt: skip
        at = datetime.fromtimestamp(self.time, UTC).isoformat()
        return {"time": at, **{name: getattr(self, name) for name in names}, "body": self.body}

    def __str__(self) -> str:
        status = {None: "...", 0: "dropped"}.get(self.status, str(self.status))
        note = f" (faults {', '.join(map(str, self.faults))})" if self.faults else ""
        return f"#{self.number} {self.user} {self.verb} {self.target}: {status}{note}"


def name_in_body(body: Any) -> str:
    """Return metadata.name of a body, or "" if it has none."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def decode_body(codecs: CodecFactory, content_type: str, version: GroupVersion, data: bytes) -> Any:
    """Return a body as JSON: an object of any media type, or a patch. `version` is that of the
    path. Raises CodecError, ValueError."""
    content_type = content_type.partition(";")[0].strip().lower()
    if content_type.endswith(("-patch+json", "/json")) or not content_type:
        from kapiserver.codecs import json

        return json.decode_value(data)
    if content_type.endswith(("-patch+yaml", "/yaml")):
        from kapiserver.codecs import yaml

        return yaml.decode_value(data)
    if content_type.endswith("+cbor"):
        content_type = "application/cbor"
    media = negotiate_input(content_type, codecs.media_types)
    serializer = codecs.limited_serializer_for(media)
    return serializer.decode(data, defaults=version.with_kind("")).object
