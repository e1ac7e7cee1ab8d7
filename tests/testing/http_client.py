"""A synchronous HTTP client of a TestServer, as its administrator."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from kapiserver.testing import TestServer

MERGE = "application/merge-patch+json"


def _value(body: bytes) -> Any:
    """Return JSON, or the text of a page such as "404 page not found"."""
    return json.loads(body) if body.startswith((b"{", b"[")) else body.decode()


class HttpClient:
    """Requests with JSON bodies; returns (status, JSON)."""

    def __init__(self, server: TestServer, *, token: str = "", agent: str = "tests") -> None:
        self.server = server
        self.token = token or server.token
        self.agent = agent

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a body as JSON."""
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, type=type, headers=headers)

    def send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        *,
        type: str,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a body as it is."""
        own = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": type,
            "User-Agent": self.agent,
        }
        request = urllib.request.Request(
            self.server.url + path, method=method, data=data, headers=own | (headers or {})
        )
        try:
            with urllib.request.urlopen(request, context=self._context()) as response:
                return response.status, _value(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _value(error.read())

    def watch(self, path: str) -> Any:
        """Open a watch; iterate over the lines of the response."""
        request = urllib.request.Request(
            f"{self.server.url}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        return urllib.request.urlopen(request, context=self._context())

    def _context(self) -> ssl.SSLContext | None:
        ca = self.server.ca
        return ssl.create_default_context(cafile=ca) if ca is not None else None
