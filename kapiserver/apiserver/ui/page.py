"""The page at /ui: its files, its session, and the way of its requests to the API.

    /ui/            the page and its files, without credentials
    /ui/session     GET: who is signed in; POST: exchanges the key of the link for a cookie;
                    DELETE: signs out
    /ui/proxy/PATH  the API's answer to PATH, for the user of the cookie

The page sends the requests of a person with a token to the API itself, with the header
Authorization, and those of a person with a cookie to /ui/proxy, as the cookie is sent to /ui alone.
`route_to_api` drops the prefix before any filter sees the request; from there on it is a request
of the API like any other: authorized, audited, limited.

A page of another origin cannot use the cookie: a request that needs it must have the header
Kapiserver-UI, which scripts of other origins cannot set, as the server allows them no preflight
request. The handshake of a WebSocket cannot have such a header; there Origin must be the server's
own. The answers of pods (subresource proxy) would run as scripts of this origin, and streams into
pods have no place in the page: neither can be reached with the cookie.
"""

from __future__ import annotations

import time
from typing import Any

from kapiserver.apiserver.errors import BadRequest, Forbidden, MethodNotAllowed, Unauthorized
from kapiserver.apiserver.request import Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Headers, Response
from kapiserver.apiserver.ui.page_files import SECURITY_HEADERS, read_files, serve_file
from kapiserver.apiserver.ui.sessions import Sessions
from kapiserver.apiserver.user import ANONYMOUS, User
from kapiserver.codecs import json
from kapiserver.codecs.errors import CodecError

PROXY_PREFIX = "/ui/proxy/"
SESSION_PATH = "/ui/session"
PAGE_HEADER = "Kapiserver-UI"
"""The header that the page sends with each request, with the value 1."""
MAX_BODY = 4096
_REFUSED_SUBRESOURCES = frozenset(("proxy", "exec", "attach", "portforward"))


class Page:
    """The page of one server.

    sessions    who is signed in by the link
    features    what the page shows besides the API, such as `simulation`
    """

    def __init__(self, features: tuple[str, ...] = ()) -> None:
        self.sessions = Sessions(time.monotonic)
        self.features = features
        self._files = read_files()

    def route_to_api(self, request: Request) -> None:
        """Make a request below /ui/proxy the request of the API that it stands for; leave others
        as they are."""
        if not request.uri.startswith(PROXY_PREFIX):
            return
        request.uri = request.uri[len(PROXY_PREFIX) - 1 :]
        target = parse_target(request.uri)
        request.path, request.query = target.path, target.query
        request.info = parse_request_info(request.method, target.path, target.query)
        request.is_of_page = True

    def user_of(self, request: Request) -> User:
        """Return the user of a request that came by /ui/proxy: the one of its cookie. Raises
        Unauthorized without a session, Forbidden if another page may have sent it or if it is for a
        subresource that the page has no use for."""
        _check_origin(request)
        user = self.sessions.user(request)
        if user is None:
            raise Unauthorized
        if request.info.subresource in _REFUSED_SUBRESOURCES:
            raise Forbidden(f"the page does not use {request.info.subresource}")
        return user

    def has_path(self, path: str) -> bool:
        """Report whether a path is one of the page's files or its session."""
        return path == "/ui" or path.startswith("/ui/")

    async def serve(self, request: Request) -> Response:
        """Return a file of the page, or the answer about its session."""
        if request.path == SESSION_PATH:
            return await self._serve_session(request)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed
        if request.path == "/ui":
            return Response(status=308, media_type="", headers=_headers(("Location", "/ui/")))
        return serve_file(self._files, request.path.removeprefix("/ui/"), request)

    async def _serve_session(self, request: Request) -> Response:
        if request.method == "GET":
            return self._describe_session(request)
        _check_origin(request)
        if request.method == "DELETE":
            cookie = self.sessions.end(request)
        elif request.method == "POST":
            cookie = self.sessions.exchange(await _read_key(request), request)
        else:
            raise MethodNotAllowed
        return Response(status=204, media_type="", headers=_headers(("Set-Cookie", cookie)))

    def _describe_session(self, request: Request) -> Response:
        user = request.user if request.user is not ANONYMOUS else self.sessions.user(request)
        session: dict[str, Any] = {
            "user": user.name if user is not None else "",
            "isOpen": request.user is not ANONYMOUS,
            "features": list(self.features),
        }
        return Response(body=json.encode_value(session) + b"\n", headers=_headers())


def _headers(*added: tuple[str, str]) -> Headers:
    return [*SECURITY_HEADERS, ("Cache-Control", "no-store"), *added]


def _check_origin(request: Request) -> None:
    """Raise Forbidden if a page of another origin may have sent the request."""
    origin = request.header("Origin").lower()
    is_own = origin.partition("://")[2] == request.header("Host").lower()
    if request.header("Upgrade"):
        is_allowed = is_own
    else:
        is_allowed = request.header(PAGE_HEADER) == "1" and (is_own or not origin)
    if not is_allowed or request.header("Sec-Fetch-Site") not in ("", "same-origin"):
        raise Forbidden("only the page at /ui may send this request")


async def _read_key(request: Request) -> str:
    try:
        body: Any = json.decode_value(await request.read_body(MAX_BODY))
    except CodecError as error:
        raise BadRequest(str(error)) from None
    key = body.get("key") if isinstance(body, dict) else None
    if not isinstance(key, str):
        raise BadRequest("the body must be a JSON object with the text key")
    return key
