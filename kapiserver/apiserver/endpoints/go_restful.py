"""What go-restful refuses before a handler of kube-apiserver sees the request.

kube-apiserver finds the handlers of built-in resources, of /version and of most discovery documents
by routes of go-restful. A route matches if it produces a media type of the Accept header and
consumes the Content-Type. go-restful compares names only: it knows neither q nor ranges such as
`application/*`. The handlers of kube-apiserver negotiate after that (`negotiation.py`). Custom
resources, /apis, /openapi and /metrics have no such routes. Mirrors jsr311.go and route.go of
go-restful.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.apiserver.errors import MethodNotAllowed, RouteNotAcceptable, UnsupportedByRoute
from kapiserver.apiserver.request import Request
from kapiserver.codecs.media_types import MediaType


def produced_types(offered: Sequence[MediaType], *, has_streams: bool = False) -> tuple[str, ...]:
    """Return the names of the media types that a route produces; lists have streams, too, as a
    watch is a list."""
    names = [media.name for media in offered]
    if has_streams:
        names += [media.stream_name for media in offered if media.framing is not None]
    return tuple(names)


def check_route(request: Request, consumed: Sequence[str]) -> None:
    """Check the method and the Content-Type for a route that serves GET. Raises MethodNotAllowed,
    UnsupportedByRoute."""
    if request.method != "GET":
        raise MethodNotAllowed
    content_type = request.header("Content-Type")
    if content_type:
        check_content_type(content_type, consumed)


def check_accept(header: str, produced: Sequence[str]) -> None:
    """Raise RouteNotAcceptable unless the Accept header names a type that the route produces."""
    if header and not any(name == "*/*" or name in produced for name in _names(header)):
        raise RouteNotAcceptable(produced)


def check_content_type(header: str, consumed: Sequence[str]) -> None:
    """Raise UnsupportedByRoute unless the Content-Type is one that the route consumes."""
    if not any(name in consumed for name in _names(header)):
        raise UnsupportedByRoute


def _names(header: str) -> list[str]:
    return [element.partition(";")[0].strip(" ") for element in header.split(",")]
