"""The server's part of the page at /ui: files, headers, the one-time link, the cookie."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.ui.page_files import FOLDER
from kapiserver.apiserver.ui.sessions import LINK_SECONDS, SESSION_SECONDS, Sessions
from kapiserver.testing import TestServer

ROOT = Path(__file__).parent.parent.parent
PAGE = {"Kapiserver-UI": "1"}


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[TestServer]:
    with TestServer(enable_ui=True, insecure=True) as server:
        yield server


@pytest.fixture(name="http")
def _http(server: TestServer) -> Iterator[httpx.Client]:
    context = server.ssl_context
    assert context is not None
    with httpx.Client(base_url=server.url, verify=context) as client:
        yield client


def sign_in(server: TestServer, http: httpx.Client) -> None:
    """Exchange a new link for a cookie, which the client keeps."""
    page = server.running.cluster.server.page
    assert page is not None
    link = server.call(lambda: page.sessions.make_link(server.url))
    key = link.partition("#key=")[2]
    assert http.post("/ui/session", json={"key": key}, headers=PAGE).status_code == 204


def test_page_is_off_by_default() -> None:
    """Without --enable-ui, /ui is a path like any unknown one, and no file of the page is read."""
    with TestServer() as server:
        assert server.page_url == ""
        context = server.ssl_context
        assert context is not None
        with httpx.Client(base_url=server.url, verify=context) as http:
            assert http.get("/ui/").status_code == 403
            http.headers["Authorization"] = f"Bearer {server.token}"
            assert http.get("/ui/").status_code == 404
        assert server.running.cluster.server.page is None


@pytest.mark.parametrize("name", ["", *sorted(path.name for path in FOLDER.glob("*.[cjs]*"))])
def test_files_have_strict_headers(http: httpx.Client, name: str) -> None:
    """Each file has its media type, an ETag and a policy that allows this origin alone."""
    if name.endswith(".sha256"):
        assert http.get(f"/ui/{name}").status_code == 404
        return
    response = http.get(f"/ui/{name}")
    assert response.status_code == 200
    suffix = Path(name).suffix or ".html"
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
    types[".svg"] = "image/svg+xml"
    assert response.headers["Content-Type"].startswith(types[suffix])
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-cache"
    again = http.get(f"/ui/{name}", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_paths(http: httpx.Client) -> None:
    """/ui leads to the page; unknown files, other methods and paths out of the folder fail."""
    assert http.get("/ui").headers["Location"] == "/ui/"
    assert http.head("/ui/").content == b""
    assert http.post("/ui/").status_code == 405
    for path in ("nothing.js", "../page.py", "%2e%2e/page.py", "built/app.js", "licenses.md"):
        response = http.get(f"/ui/{path}")
        assert response.status_code in (403, 404)
        if response.status_code == 404:
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert http.get("/uix").status_code == 403


def test_page_names_no_other_origin() -> None:
    """The page and its styles load nothing from elsewhere, and have no inline script or style."""
    html = (FOLDER / "index.html").read_text()
    assert re.findall(r"(?:src|href)=\"(?!/ui/)", html) == []
    assert re.findall(r"<script(?![^>]*src=)|<style|style=|\son\w+=", html) == []
    styles = "".join(path.read_text() for path in FOLDER.glob("*.css"))
    assert "url(" not in styles
    assert "@import" not in styles


def test_sources_make_no_html_from_text() -> None:
    """No source of the page writes HTML: all text goes into text nodes."""
    sources = [*(ROOT / "ui/src").rglob("*.ts"), *(ROOT / "ui/src").rglob("*.tsx")]
    assert len(sources) > 20
    dangerous = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(")
    assert [path.name for path in sources if dangerous.search(path.read_text())] == []


def test_link_becomes_a_cookie_once(server: TestServer, http: httpx.Client) -> None:
    """The key of the link gives a cookie that no script and no other site can use; only once."""
    page = server.running.cluster.server.page
    assert page is not None
    link = server.call(lambda: page.sessions.make_link(server.url))
    key = link.partition("#key=")[2]
    assert http.post("/ui/session", json={"key": key}).status_code == 403  # without the header
    response = http.post("/ui/session", json={"key": key}, headers=PAGE)
    cookie = response.headers["Set-Cookie"]
    assert response.status_code == 204
    assert response.headers["Cache-Control"] == "no-store"
    for attribute in ("Path=/ui;", "HttpOnly", "Secure", "SameSite=Strict"):
        assert attribute in cookie
    again = httpx.Client(base_url=server.url, verify=http_context(server))
    with again:
        refused = again.post("/ui/session", json={"key": key}, headers=PAGE)
        assert refused.status_code == 401
        assert refused.json()["kind"] == "Status"
    assert http.get("/ui/session").json()["user"] == "kubernetes-admin"


def http_context(server: TestServer) -> ssl.SSLContext:
    context = server.ssl_context
    assert context is not None
    return context


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"key": 1}', 400),
        (b'{"key": "wrong"}', 401),
        (b'{"key": "' + b"x" * 5000 + b'"}', 413),
    ],
)
def test_bad_keys(http: httpx.Client, body: bytes, status: int) -> None:
    """A body that is no key gets a Status that says why."""
    response = http.post("/ui/session", content=body, headers=PAGE)
    assert response.status_code == status
    assert response.json()["code"] == status


def test_cookie_counts_below_proxy_alone(server: TestServer, http: httpx.Client) -> None:
    """The cookie gives the administrator's rights to requests of the page, to nothing else."""
    sign_in(server, http)
    path = "/api/v1/namespaces/default/configmaps"
    assert http.get(f"/ui/proxy{path}", headers=PAGE).json()["kind"] == "ConfigMapList"
    created = http.post(f"/ui/proxy{path}", json={"metadata": {"name": "a"}}, headers=PAGE)
    assert created.status_code == 201
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    me = http.post(
        "/ui/proxy/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review, headers=PAGE
    )
    assert me.json()["status"]["userInfo"]["username"] == "kubernetes-admin"
    cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    assert http.get(path, headers={**PAGE, "Cookie": cookie}).status_code == 403
    missing = http.get("/ui/proxy/api/v1/namespaces/default/configmaps/none", headers=PAGE)
    assert missing.json()["details"]["name"] == "none"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Kapiserver-UI": "0"},
        {**PAGE, "Origin": "https://evil.example"},
        {**PAGE, "Origin": "null"},
        {**PAGE, "Sec-Fetch-Site": "cross-site"},
        {**PAGE, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_cannot_use_the_cookie(
    server: TestServer, http: httpx.Client, headers: dict[str, str]
) -> None:
    """Requests that another page could send are refused, whatever their method."""
    sign_in(server, http)
    for method in ("GET", "POST", "DELETE"):
        response = http.request(
            method, "/ui/proxy/api/v1/namespaces/default/configmaps", headers=headers
        )
        assert response.status_code == 403
        assert response.json()["reason"] == "Forbidden"


@pytest.mark.parametrize("subresource", ["proxy", "proxy/x", "exec", "attach", "portforward"])
def test_streams_and_pages_of_pods_are_refused(
    server: TestServer, http: httpx.Client, subresource: str
) -> None:
    """The cookie reaches no page of a pod, whose scripts would have the page's origin."""
    sign_in(server, http)
    path = f"/ui/proxy/api/v1/namespaces/default/pods/web/{subresource}"
    assert http.get(path, headers=PAGE).status_code == 403


def test_signing_out(server: TestServer, http: httpx.Client) -> None:
    """After signing out the cookie is of no use, even if somebody has kept it."""
    sign_in(server, http)
    cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    response = http.delete("/ui/session", headers=PAGE)
    assert "Max-Age=0" in response.headers["Set-Cookie"]
    headers = {**PAGE, "Cookie": cookie}
    assert http.get("/ui/proxy/api/v1/pods", headers=headers).status_code == 401
    assert http.get("/ui/session", headers=headers).json()["user"] == ""


@pytest.mark.parametrize("origin", ["own", "foreign", "none"])
def test_websocket_needs_the_own_origin(
    server: TestServer, http: httpx.Client, origin: str
) -> None:
    """A WebSocket cannot have the header of the page, so Origin must be the server's own."""
    sign_in(server, http)
    cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    origins = {"own": server.url, "foreign": "https://evil.example", "none": ""}
    head = (
        "GET /ui/proxy/api/v1/pods?watch=1 HTTP/1.1\r\n"
        f"Host: {server.url.removeprefix('https://')}\r\n"
        f"Cookie: {cookie}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
    )
    if origins[origin]:
        head += f"Origin: {origins[origin]}\r\n"
    status = asyncio.run(first_line(server, f"{head}\r\n"))
    assert status.split()[1] == ("101" if origin == "own" else "403")


async def first_line(server: TestServer, head: str) -> str:
    """Send the head of a request; return the first line of the answer."""
    host, port = server.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=http_context(server))
    writer.write(head.encode())
    line = await reader.readline()
    writer.transport.abort()  # a close waits for the server's, and a loop that ends does not wait
    return line.decode()


def test_insecure_port_needs_no_session(server: TestServer) -> None:
    """On the insecure port, where everybody is an administrator, the page asks for no credentials;
    pages of other sites are refused there as for all requests."""
    with httpx.Client(base_url=server.insecure_url) as http:
        session = http.get("/ui/session").json()
        assert (session["user"], session["isOpen"]) == ("system:unsecured", True)
        assert http.get("/ui/", headers={"Host": "evil.example"}).status_code == 421
        assert http.get("/ui/proxy/api/v1/pods").json()["kind"] == "PodList"


def request_with(headers: dict[str, str]) -> Request:
    async def no_body(_: int) -> bytes:
        return b""

    info = parse_request_info("GET", "/ui/session", {})
    return Request(
        method="GET", path="/ui/session", query={}, headers=headers, info=info, read_body=no_body
    )


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


def test_links_and_sessions_end() -> None:
    """A link ends after an hour, a session after twelve; a new link replaces the one before."""
    clock = Clock()
    sessions = Sessions(clock.now)
    request = request_with({"Host": "127.0.0.1:6443"})
    old = sessions.make_link("https://a").partition("#key=")[2]
    key = sessions.make_link("https://a").partition("#key=")[2]
    with pytest.raises(Unauthorized):
        sessions.exchange(old, request)
    clock.seconds += LINK_SECONDS
    with pytest.raises(Unauthorized):
        sessions.exchange(key, request)
    key = sessions.make_link("https://a").partition("#key=")[2]
    cookie = sessions.exchange(key, request).partition(";")[0]
    assert cookie.startswith("__Secure-kapiserver-ui-6443=")
    signed_in = request_with({"Host": "127.0.0.1:6443", "Cookie": f"other=1; {cookie}"})
    other_port = request_with({"Host": "127.0.0.1:6444", "Cookie": cookie})
    assert sessions.user(signed_in) is not None
    assert sessions.user(other_port) is None
    clock.seconds += SESSION_SECONDS
    assert sessions.user(signed_in) is None


def test_clock_path(server: TestServer, http: httpx.Client) -> None:
    """The clock of a test server can be read and moved with the rights to its path."""
    path = "/kapiserver/clock"
    assert http.get(path).status_code == 403
    http.headers["Authorization"] = f"Bearer {server.token}"
    before = http.get(path).json()
    assert before["isFrozen"] is False
    after = http.post(path, json={"freeze": True, "advance": 3600}).json()
    assert after["isFrozen"] is True
    assert after["now"] >= before["now"] + 3600
    assert http.get(path).json()["now"] == after["now"]
    assert http.post(path, json={"freeze": False}).json()["isFrozen"] is False
    bad_bodies = ({"advance": -1}, {"advance": "1h"}, {"advance": True}, {"freeze": 1}, [])
    assert [http.post(path, json=body).status_code for body in bad_bodies] == [400] * 5
    assert http.put(path, json={}).status_code == 405


def test_built_files_are_current() -> None:
    """The built files name the hashes of the sources that they were built from; `make ui` builds
    them."""
    lines = (FOLDER / "sources.sha256").read_text().splitlines()
    built = {path: digest for digest, path in (line.split("  ") for line in lines)}
    folder = ROOT / "ui"
    names = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]
    files = [folder / name for name in names]
    files += [path for part in ("src", "public") for path in (folder / part).rglob("*")]
    current = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }
    assert built == current
