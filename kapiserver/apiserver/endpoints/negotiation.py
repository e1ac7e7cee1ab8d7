"""What form a client wants its answer in: encoding, indentation, and what the object is turned
into on the way (a Table, its metadata alone).

Decided before any work is done. Mirrors endpoints/handlers/negotiation and
AllowsMediaTypeTransform of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.target import Target
from kapiserver.codecs.media_types import PROTOBUF, MediaType
from kapiserver.codecs.negotiation import (
    AllowsConversion,
    MediaTypeOptions,
    negotiate_output,
    negotiate_output_stream,
    wants_pretty,
)

META_VERSIONS = (GroupVersion("meta.k8s.io", "v1"), GroupVersion("meta.k8s.io", "v1beta1"))
_REMEMBERED_LENGTH = 512
_METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The form of an answer; `convert` is a Table or metadata of META_VERSIONS, or None."""

    media: MediaType
    pretty: bool = False
    convert: GroupVersionKind | None = None

    @property
    def is_table(self) -> bool:
        """Whether the answer shall be a Table."""
        return self.convert is not None and self.convert.kind == "Table"


def wanted(server: Server, request: Request, target: Target) -> Wanted:
    """The form that a client wants an object, a list or a Table in. Raises NotAcceptable."""
    header, offered = request.header("Accept"), server.codecs.media_types
    # Clients send the same few headers over and over.
    known = len(header) <= _REMEMBERED_LENGTH
    allows = _allows if target.is_typed else _allows_of_custom
    accepted = (_negotiated if known else _negotiated.__wrapped__)(header, offered, allows)
    return _wanted(request, accepted)


def wanted_stream(server: Server, request: Request, target: Target) -> Wanted:
    """The form of a watch's events. Raises NotAcceptable."""
    header = request.header("Accept")
    allows = _allows if target.is_typed else _allows_of_custom
    accepted = negotiate_output_stream(header, server.codecs.media_types, allows=allows)
    return Wanted(media=accepted.media, convert=accepted.convert)


@functools.lru_cache(maxsize=256)
def _negotiated(
    header: str, offered: tuple[MediaType, ...], allows: AllowsConversion
) -> MediaTypeOptions:
    return negotiate_output(header, offered, allows=allows)


def _wanted(request: Request, accepted: MediaTypeOptions) -> Wanted:
    human = wants_pretty(request.parameter("pretty"), request.header("User-Agent"))
    pretty = accepted.media.pretty and (accepted.pretty or human)
    return Wanted(media=accepted.media, pretty=pretty, convert=accepted.convert)


def _allows_of_custom(media: MediaType, convert: GroupVersionKind | None) -> bool:
    """Custom objects have no form in Protobuf; their metadata has."""
    return _allows(media, convert) and not (convert is None and media is PROTOBUF)


def _allows(media: MediaType, convert: GroupVersionKind | None) -> bool:
    if convert is None:
        return True
    if convert.group_version not in META_VERSIONS:
        return False
    return convert.kind in _METADATA or (convert.kind == "Table" and media is not PROTOBUF)
