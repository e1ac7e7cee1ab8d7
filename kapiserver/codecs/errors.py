"""What can go wrong between bytes and objects, without a word about HTTP.

    CodecError
    |-- Malformed            the bytes are not of their format
    |-- MissingKind          no kind or apiVersion, and no default for it
    |-- UnknownKind          a kind, or a version of it, that the scheme does not have
    |-- WrongValue           a value of the wrong JSON type for its field, or out of its range
    |-- TooLarge             longer than the bound
    |-- UnsupportedEncoding  an envelope with an encoding or content type nobody here reads
    |-- NotEncodable         an object that has no form in this media type
    |-- NotAcceptable        none of the media types asked for is offered
    `-- UnsupportedMediaType the body's media type is not read here

`apiserver/errors.py` maps each to a Status.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.group import GroupVersionKind


class CodecError(Exception):
    """Base of all codec errors; the message is for the client."""

    kind: GroupVersionKind | None = None
    """What the bytes said they were, defaults applied, when that much could be read."""
    name: str = ""
    """And what they said is their name."""


class Malformed(CodecError):
    """The bytes are not of their format."""


class MissingKind(CodecError):
    """No kind or apiVersion, and no default for it."""


class UnknownKind(CodecError):
    """A kind, or a version of it, that the scheme does not have."""


class WrongValue(CodecError):
    """A value of the wrong JSON type for its field, or out of its range."""


class TooLarge(CodecError):
    """Longer than the bound. (Too deep is Malformed: so it is in Go.)"""


class UnsupportedEncoding(CodecError):
    """An envelope with an encoding or content type nobody here reads."""


class NotEncodable(CodecError):
    """An object that has no form in this media type."""


class NotAcceptable(CodecError):
    """None of the media types asked for is offered."""

    def __init__(self, offered: Sequence[str]) -> None:
        super().__init__("only the following media types are accepted: " + ", ".join(offered))
        self.offered = tuple(offered)


class UnsupportedMediaType(CodecError):
    """The body's media type is not read here."""

    def __init__(self, offered: Sequence[str]) -> None:
        super().__init__(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(offered)
        )
        self.offered = tuple(offered)
