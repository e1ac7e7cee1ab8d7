"""Refuses requests of web pages on the insecure port, where every request is an administrator's.

A browser lets a page of any site send simple requests to the loopback address. It names the page's
site in `Origin` and `Sec-Fetch-Site`, and such a request cannot have the media type of an API
object. If a site's DNS name resolves to the loopback address (DNS rebinding), `Host` has that name.
Mirrors no part of kube-apiserver, which no longer has such a port. Sources: the Fetch standard,
Fetch Metadata, RFC 9110, 7.4 (status 421).
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Awaitable

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import Forbidden, MisdirectedRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import UNSECURED
from kapiserver.codecs.errors import UnsupportedMediaType
from kapiserver.codecs.negotiation import media_type_name

SIMPLE_MEDIA_TYPES = frozenset(
    ("", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
)
"""The media types of simple requests; "" is a missing or malformed one."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?")
_AUTHORITY = re.compile(r"[^/?#]*://([^/?#]*)")
"""Matches the authority of a target in absolute form, as for a proxy."""
_MAX_HOST = 255


def refuse_web_pages(server: Server, next_handler: Handler) -> Handler:
    """Call the next handler unless a web page may have sent the request to the insecure port."""
    if server.config.serving.insecure_port is None:
        return next_handler
    offered = [media.name for media in server.codecs.media_types]

    def handle(request: Request) -> Awaitable[AnyResponse]:
        if request.user is UNSECURED:
            _check_host(request)
            _check_origin(request)
            if _is_simple_post(request):
                raise UnsupportedMediaType(offered)
        return next_handler(request)

    return handle


def _check_host(request: Request) -> None:
    hosts = [request.header("Host")]
    if target := _AUTHORITY.match(request.uri):  # names the host, too (RFC 9112, 3.2.2)
        hosts.append(target[1])
    if not all(_is_loopback(host[: _MAX_HOST + 1]) for host in hosts):
        raise MisdirectedRequest("the insecure port serves only the hosts localhost and 127.0.0.1")


@functools.lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    """Report whether a Host header, which may be missing, names the loopback address."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    in_brackets, name = match.groups()
    try:
        if in_brackets:
            return ipaddress.IPv6Address(in_brackets).is_loopback
        return name.lower() == "localhost" or ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def _check_origin(request: Request) -> None:
    origin = request.header("Origin")
    is_foreign = bool(origin) and origin.lower() != f"http://{request.header('Host')}".lower()
    if is_foreign or request.header("Sec-Fetch-Site") == "cross-site":
        raise Forbidden("the insecure port takes no requests of web pages from other origins")


def _is_simple_post(request: Request) -> bool:
    """Report whether a browser sends such a body to another site without a preflight request; other
    methods that write always need one."""
    has_length = request.header("Content-Length") not in ("", "0")
    has_body = has_length or "Transfer-Encoding" in request.headers
    media_type = media_type_name(request.header("Content-Type"))
    return request.method == "POST" and has_body and media_type in SIMPLE_MEDIA_TYPES
