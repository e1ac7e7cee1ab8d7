"""Sessions of the page: a one-time link becomes a cookie, and the cookie names the administrator.

The link is printed at start. Its key is in the fragment of the URL, which browsers send to no
server; the page posts it once, and gets the cookie of a session. Only hashes of key and cookies are
kept, in memory: a server that starts again has no session. A session is that of the user of the
kubeconfig which the same start writes. The browser sends the cookie to /ui alone (`Path`), with no
request of another site (`SameSite`), and no script can read it (`HttpOnly`). A cookie is sent to
all ports of a host, so its name has the port: two servers do not overwrite each other's.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import AUTHENTICATED, MASTERS, User

LINK_SECONDS = 3600.0
"""How long the one-time link can be used."""
SESSION_SECONDS = 12 * 3600.0
"""How long a session lasts."""
ADMINISTRATOR = User(name="kubernetes-admin", groups=(MASTERS, AUTHENTICATED))
"""The user of a session, as in the kubeconfig that `serve` writes."""


class Sessions:
    """The one-time link and the session that it became.

    now     returns the time in seconds; it never goes back
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._link = ""
        self._link_ends = 0.0
        self._cookie = ""
        self._cookie_ends = 0.0

    def make_link(self, url: str) -> str:
        """Return a URL of the page with a new key; the key before it is of no use any more.

        url     the URL of the server, without a path
        """
        key = secrets.token_urlsafe(32)
        self._link, self._link_ends = _hash(key), self._now() + LINK_SECONDS
        return f"{url}/ui/#key={key}"

    def exchange(self, key: str, request: Request) -> str:
        """Return the value of the header Set-Cookie with a new session, in exchange for the key of
        the link. Raises Unauthorized if the key is wrong, was used, or is too old."""
        now = self._now()
        if not self._link or not secrets.compare_digest(_hash(key), self._link):
            raise Unauthorized
        self._link, link_ends = "", self._link_ends
        if now >= link_ends:
            raise Unauthorized
        cookie = secrets.token_urlsafe(32)
        self._cookie, self._cookie_ends = _hash(cookie), now + SESSION_SECONDS
        return _set_cookie(request, cookie, int(SESSION_SECONDS))

    def user(self, request: Request) -> User | None:
        """Return the user of the request's cookie; None if it has no cookie of a session."""
        cookie = _cookies(request).get(_cookie_name(request), "")
        if not cookie or not self._cookie or self._now() >= self._cookie_ends:
            return None
        return ADMINISTRATOR if secrets.compare_digest(_hash(cookie), self._cookie) else None

    def end(self, request: Request) -> str:
        """End the session of the request, and return the value of the header Set-Cookie that
        removes its cookie."""
        if self.user(request) is not None:
            self._cookie = ""
        return _set_cookie(request, "", 0)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _cookie_name(request: Request) -> str:
    port = request.header("Host").rpartition(":")[2]
    return f"__Secure-kapiserver-ui-{port if port.isdecimal() else 443}"


def _cookies(request: Request) -> dict[str, str]:
    pairs = (pair.strip().partition("=") for pair in request.header("Cookie").split(";"))
    return {name: value for name, _, value in pairs}


def _set_cookie(request: Request, value: str, seconds: int) -> str:
    name = _cookie_name(request)
    return f"{name}={value}; Path=/ui; Max-Age={seconds}; HttpOnly; Secure; SameSite=Strict"
