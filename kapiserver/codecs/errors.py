"""The errors of encoding and decoding. They know nothing of HTTP.

    CodecError
    |-- Malformed            the bytes are not of their format
    |-- MissingKind          no kind or apiVersion, and no default
    |-- UnknownKind          a kind or version that is not in the scheme
    |-- WrongValue           a value of the wrong JSON type for its field, or out of its range
    |-- TooLarge             more bytes or values than the limit
    |-- UnsupportedEncoding  an envelope with an unsupported encoding or content type
    |-- NotEncodable         an object that has no form in this media type
    |-- NotAcceptable        none of the accepted media types is offered
    `-- UnsupportedMediaType the media type of the body is not supported

`apiserver/errors.py` maps each to a Status.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.group import GroupVersionKind


class CodecError(Exception):
    """Base of all codec errors; the message is for the client."""

    kind: GroupVersionKind | None = None
    """The kind of the object, defaults applied, if it could be read."""
    name: str = ""
    """The name of the object, if it could be read."""


class Malformed(CodecError):
    """The bytes are not of their format."""


class MissingKind(CodecError):
    """No kind or apiVersion, and no default."""


class UnknownKind(CodecError):
    """A kind or version that is not in the scheme."""


class WrongValue(CodecError):
    """A value of the wrong JSON type for its field, or out of its range."""


class TooLarge(CodecError):
    """More bytes or values than the limit. Too deep nesting is Malformed, as in Go."""


class UnsupportedEncoding(CodecError):
    """An envelope with an unsupported encoding or content type."""


class NotEncodable(CodecError):
    """An object that has no form in this media type."""


class NotAcceptable(CodecError):
    """None of the accepted media types is offered."""

    def __init__(self, offered: Sequence[str]) -> None:
        super().__init__("only the following media types are accepted: " + ", ".join(offered))
        self.offered = tuple(offered)


class UnsupportedMediaType(CodecError):
    """The media type of the body is not supported."""

    def __init__(self, offered: Sequence[str]) -> None:
        super().__init__(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(offered)
        )
        self.offered = tuple(offered)
