"""The subresource `proxy` of pods: what passes through, in both directions."""

from __future__ import annotations

import gzip
import http.client
import socket
import zlib
from collections.abc import Iterator

import pytest

from kapiserver.apiserver.proxy.links import MAX_HTML_BYTES
from tests.apiserver.conftest import Api, Response
from tests.apiserver.proxy.upstreams import (
    Exchange,
    Upstream,
    machine_address,
    reply,
    running_upstream,
)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server in the pod `p`."""
    with running_upstream() as upstream:
        yield upstream


def create_pod(api: Api, core: str, address: str, *ports: int, name: str = "p") -> str:
    """Create a pod with that address and container ports; return its path."""
    container = {"name": "c", "image": "i", "ports": [{"containerPort": port} for port in ports]}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    assert api.post(f"{core}/pods", body).status == 201
    path = f"{core}/pods/{name}"
    pod = api.get(path).json
    pod["status"] |= {"podIP": address, "podIPs": [{"ip": address}]}
    assert api.put(f"{path}/status", pod).status == 200
    return path


@pytest.fixture
def proxy(api: Api, core: str, upstream: Upstream) -> str:
    """The path of the proxy to the pod."""
    return create_pod(api, core, upstream.host, upstream.port) + "/proxy"


def message(response: Response) -> tuple[int, str]:
    return response.status, response.message


@pytest.mark.parametrize("method", ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"])
def test_methods(api: Api, proxy: str, upstream: Upstream, method: str) -> None:
    """Each method is passed on with its body, path and query."""
    upstream.respond(reply(b"body", "X-A: b", "Content-Type: text/x", status="418 x"))
    body = b"sent" if method in ("PATCH", "POST", "PUT") else None
    response = api(method, f"{proxy}/a%20b/%C3%A4//c/../d/?q=a%2Fb&q=+;", body)
    assert (response.status, response.body) == (418, b"body")
    assert response.headers["X-A"] == "b"
    assert response.headers["Content-Type"] == "text/x"
    assert response.headers["Content-Length"] == "4"
    request = upstream.request()
    assert request.method == method
    assert request.target == "/a%20b/%C3%A4/d/?q=a%2Fb&q=+;"
    assert request.body == (body or b"")


def test_head(api: Api, proxy: str, upstream: Upstream) -> None:
    """The response to HEAD has the length and no body; so have 204 and 304."""
    upstream.respond(reply(b"", "X-A: b").replace(b"Length: 0", b"Length: 9"))
    response = api("HEAD", f"{proxy}/")
    assert (response.status, response.body) == (200, b"")
    assert response.headers["Content-Length"] == "9"
    upstream.respond(b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n")
    response = api.get(f"{proxy}/")
    assert (response.status, response.headers["Content-Length"]) == (204, None)
    assert response.headers["Transfer-Encoding"] is None
    upstream.respond(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")
    assert api.get(f"{proxy}/").headers["ETag"] == "x"


def test_other_methods(api: Api, proxy: str) -> None:
    """No other method is passed on, and no dry run."""
    assert message(api("TRACE", f"{proxy}/"))[0] == 405
    assert message(api.get(f"{proxy}/?dryRun=All")) == (400, "dryRun is not supported")


def test_request_headers(api: Api, proxy: str, upstream: Upstream) -> None:
    """Credentials and hop-by-hop headers go no further; other headers do, and none is added but
    those of proxies and of the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    connection.putrequest("GET", f"{proxy}/x", skip_accept_encoding=True, skip_host=True)
    for name, value in (
        ("Host", "localhost"),
        ("Authorization", "Bearer secret"),
        ("X-Remote-User", "jane"),
        ("X-Remote-Extra-A", "b"),
        ("Cookie", "a=b"),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
        ("X-Text", "\u00e4"),
        ("X-Forwarded-For", "10.1.1.1"),
        ("Connection", "X-Drop, keep-alive"),
        ("X-Drop", "x"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "gzip"),
        ("Proxy-Authorization", "x"),
    ):
        connection.putheader(name, value.encode())
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    headers = upstream.request().headers
    path = proxy.partition("/proxy")[0]
    assert sorted(headers) == [
        ("Connection", "close"),
        ("Cookie", "a=b"),
        ("Host", "localhost"),
        ("X-Forwarded-For", "10.1.1.1, 127.0.0.1"),
        ("X-Forwarded-Uri", f"{path}/proxy/x"),
        ("X-Text", "\u00e4"),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
    ]


def test_response_headers(api: Api, proxy: str, upstream: Upstream) -> None:
    """Headers pass back but for those of CORS and of the connection."""
    upstream.respond(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
        b"Access-Control-Allow-Origin: *\r\nKeep-Alive: timeout=5\r\nCache-Control: max-age=5\r\n"
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Bytes: \xff\r\n\r\nx"
    )
    response = api.get(f"{proxy}/")
    assert response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert response.headers.get_all("Cache-Control") == ["no-cache, private", "max-age=5"]
    assert response.headers["X-Bytes"] == "\xff"
    assert len(response.headers.get_all("Date") or ()) == 1
    for name in ("Access-Control-Allow-Origin", "Keep-Alive", "Content-Type"):
        assert response.headers[name] is None


def test_path_without_a_slash(api: Api, proxy: str, upstream: Upstream) -> None:
    """GET of the proxy itself leads to the path with a slash; other methods get `/`."""
    response = api.get(f"{proxy}?a=b")
    assert (response.status, response.headers["Location"]) == (301, f"{proxy}/?a=b")
    assert response.body == b""
    assert api.post(proxy, b"").status == 200
    assert upstream.request().target == "/"
    assert api.get(f"{proxy}/").status == 200
    assert upstream.request().target == "/"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p:{port}", (200, "")),
        ("http:p:{port}", (200, "")),
        (":p:{port}", (200, "")),
        ("http:p:", (200, "")),
        ("ftp:p:{port}", (400, 'invalid pod request "ftp:p:{port}"')),
        ("a:b:c:d", (400, 'invalid pod request "a:b:c:d"')),
        (":{port}", (400, 'invalid pod request ":{port}"')),
        ("q:{port}", (404, 'pods "q" not found')),
        ("p:web", (503, "error trying to reach service: dial tcp: lookup tcp/web: unknown port")),
        ("p:65536", (503, "error trying to reach service: dial tcp: address 65536: invalid port")),
        (
            "https:p:{port}",
            (503, "error trying to reach service: http: server gave HTTP response to HTTPS client"),
        ),
    ],
)
def test_names(
    api: Api, proxy: str, upstream: Upstream, name: str, expected: tuple[int, str]
) -> None:
    """A name in the path may have a scheme and a port."""
    upstream.answer = lambda exchange: exchange.send(reply(b"hello"))
    path = proxy.replace("/p/", f"/{name.format(port=upstream.port)}/")
    response = api.get(f"{path}/")
    text = "" if response.status == 200 else response.message
    assert (response.status, text) == (expected[0], expected[1].format(port=upstream.port))


@pytest.mark.parametrize(
    "address",
    [
        "", "127.0.0.1", "127.1.2.3", "::1", "169.254.169.254", "fe80::1",
        "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
    ],
)  # fmt: skip
def test_guarded_addresses(api: Api, core: str, address: str) -> None:
    """The server connects to no address of its own machine, link or group of machines."""
    body = {"metadata": {"name": "g"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert api.post(f"{core}/pods", body).status == 201
    path = f"{core}/pods/g"
    if address:
        patch = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        response = api.patch(f"{path}/status", patch)
        assert response.status == 200, (address, response.body)
    assert message(api.get(f"{path}:{api.port}/proxy/")) == (400, "address not allowed")


def test_unreachable_pod(api: Api, core: str) -> None:
    """A pod that refuses the connection is a 503, with the words of Go."""
    address = machine_address()
    with socket.create_server((address, 0)) as unused:
        port = unused.getsockname()[1]
    path = create_pod(api, core, address, port)
    response = api.get(f"{path}/proxy/x")
    assert message(response) == (
        503,
        f"error trying to reach service: dial tcp {address}:{port}: connect: connection refused",
    )
    assert response.json["reason"] == "ServiceUnavailable"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "EOF"),
    ],
)
def test_cut_heads(api: Api, proxy: str, upstream: Upstream, answer: bytes, text: str) -> None:
    """A response without a whole head is a 503."""
    upstream.respond(answer)
    assert message(api.get(f"{proxy}/")) == (503, f"error trying to reach service: {text}")


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20), b"HTTP/1.1 99\r\n\r\n"],
)
def test_malformed_heads(api: Api, proxy: str, upstream: Upstream, answer: bytes) -> None:
    """What is no response of HTTP is a 503."""
    upstream.respond(answer)
    status, text = message(api.get(f"{proxy}/"))
    assert status == 503
    assert text.startswith("error trying to reach service: ")


def test_unasked_upgrade(api: Api, proxy: str, upstream: Upstream) -> None:
    """A pod that changes the protocol unasked does not get the client's connection."""
    upstream.respond(b"HTTP/1.1 101 x\r\nUpgrade: own\r\nConnection: Upgrade\r\n\r\nhello")
    expected = 'backend tried to switch protocol "own" when "" was requested'
    assert message(api.get(f"{proxy}/")) == (500, expected)


def test_cut_body(api: Api, proxy: str, upstream: Upstream) -> None:
    """A body that is cut off is cut off for the client, too."""
    upstream.respond(reply(b"body").replace(b"Length: 4", b"Length: 9"))
    with pytest.raises(http.client.IncompleteRead) as cut:
        api.get(f"{proxy}/")
    assert cut.value.partial == b"body"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/", "{proxy}/a/"),
        ("/a?b=c#d", "{proxy}/a?b=c#d"),
        ("a", "a"),
        ("http://{server}/a", "{proxy}/a"),
        ("https://{server}/a", "{proxy}/a"),
        ("http://127.0.0.1:{api}/a", "http://127.0.0.1:{api}{proxy}/a"),
        ("http://example.com/a", "http://example.com/a"),
        ("{proxy}/a", "{proxy}/a"),
    ],
)
def test_redirects(api: Api, proxy: str, upstream: Upstream, location: str, expected: str) -> None:
    """A redirect is not followed; one to the pod leads through the proxy."""
    names = {"proxy": proxy, "server": f"{upstream.host}:{upstream.port}", "api": api.port}
    upstream.respond(reply(b"", f"Location: {location.format(**names)}", status="302 Found"))
    response = api.get(f"{proxy}/x/y")
    assert (response.status, response.headers["Location"]) == (302, expected.format(**names))


def test_malformed_location(api: Api, proxy: str, upstream: Upstream) -> None:
    """A Location that is no URL is an InternalError, as of kube-apiserver."""
    upstream.respond(reply(b"", "Location: /%zz", status="302 Found"))
    status, text = message(api.get(f"{proxy}/"))
    assert status == 500
    assert text.startswith("Internal error occurred: error trying to parse Location header: parse")


PAGE = b"<p><A HREF='/a?b=1&copy=2'>a</A><img src=c.png><script>'<a href=\"/x\">'</script>"


def test_page(api: Api, proxy: str, upstream: Upstream) -> None:
    """Links in a page lead through the proxy; other content stays as it is."""
    expected = (
        f'<p><a href="{proxy}/a?b=1&amp;copy=2">a</A><img src="c.png">'
        "<script>'<a href=\"/x\">'</script>"
    ).encode()
    upstream.respond(reply(PAGE, "Content-Type: text/html; charset=utf-8"))
    assert api.get(f"{proxy}/").body == expected
    upstream.respond(reply(PAGE, "Content-Type: text/plain"))
    assert api.get(f"{proxy}/").body == PAGE
    html, packed = "Content-Type: text/html", gzip.compress(PAGE)
    upstream.respond(reply(packed, html, "Content-Encoding: gzip"))
    assert gzip.decompress(api.get(f"{proxy}/").body) == expected
    deflated = zlib.compress(PAGE, wbits=-15)
    upstream.respond(reply(deflated, html, "Content-Encoding: deflate"))
    assert zlib.decompress(api.get(f"{proxy}/").body, wbits=-15) == expected
    upstream.respond(reply(PAGE, html, "Content-Encoding: br"))
    assert api.get(f"{proxy}/").body == PAGE


def test_large_page(api: Api, proxy: str, upstream: Upstream) -> None:
    """A page above the limit is passed on as it is, and so is one that is larger unpacked."""
    page = PAGE + b"x" * MAX_HTML_BYTES
    html = "Content-Type: text/html"
    upstream.respond(reply(page, html))
    assert api.get(f"{proxy}/").body == page
    packed = gzip.compress(page)
    upstream.respond(reply(packed, html, "Content-Encoding: gzip"))
    assert api.get(f"{proxy}/").body == packed


def test_streams(api: Api, proxy: str, upstream: Upstream) -> None:
    """Both bodies pass while they are sent: each part is answered before the next is sent."""

    def echo(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while size := int(exchange.reader.readline(), 16):
            part = exchange.receive(size + 2)[:-2]
            exchange.send(b"%x\r\n%b\r\n" % (len(part), part))
        exchange.send(b"0\r\n\r\n")

    upstream.reads_body = False
    upstream.answer = echo
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as client:
        head = f"POST {proxy}/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: a/b\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        reader = client.makefile("rb")
        for part in (b"one", b"two", b"x" * 100_000):
            client.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            if part == b"one":
                while reader.readline() != b"\r\n":
                    pass
            received = b""
            while len(received) < len(part):
                size = int(reader.readline(), 16)
                received += reader.read(size)
                reader.readline()
            assert received == part
        client.sendall(b"0\r\n\r\n")
        assert reader.readline() == b"0\r\n"


def test_large_bodies(api: Api, proxy: str, upstream: Upstream) -> None:
    """Bodies have no maximum size."""
    body = bytes(range(256)) * (40 << 10)
    upstream.answer = lambda exchange: exchange.send(reply(exchange.body))
    assert api.put(f"{proxy}/", body).body == body


def test_early_response(api: Api, proxy: str, upstream: Upstream) -> None:
    """A response that comes before the body was read is passed back."""
    upstream.reads_body = False
    upstream.respond(reply(b"too large", status="413 x"))
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as client:
        head = f"POST {proxy}/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: a/b\r\n"
        client.sendall(f"{head}Content-Length: 10\r\n\r\n".encode())
        assert client.makefile("rb").readline().startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("has_head", [False, True])
def test_client_goes(api: Api, proxy: str, upstream: Upstream, has_head: bool) -> None:
    """When the client closes its connection, the one to the pod ends, before and after the head."""
    ended = []

    def wait(exchange: Exchange) -> None:
        if has_head:
            exchange.send(b"HTTP/1.1 200 OK\r\n\r\npart")
        ended.append(exchange.receive(1))
        upstream.requests.put(exchange)

    upstream.answer = wait
    client = socket.create_connection(("127.0.0.1", api.port), timeout=60)
    client.sendall(f"GET {proxy}/ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    upstream.request()
    if has_head:
        assert b"200 OK" in client.recv(4096)
    client.close()
    upstream.request()
    assert ended == [b""]
    assert api.get("/readyz").status == 200


def test_admission_gets_the_path(api: Api, proxy: str, upstream: Upstream) -> None:
    """Admission plugins get the path that is passed on, as a text."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
        "resources": ["pods/proxy"],
    }  # fmt: skip
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.path != '/a/b/'", "message": "not there"}],
    }
    binding = {"policyName": "paths", "validationActions": ["Deny"]}
    metadata = {"metadata": {"name": "paths"}}
    assert api.post(f"{policies}ies", metadata | {"spec": spec}).status == 201
    assert api.post(f"{policies}ybindings", metadata | {"spec": binding}).status == 201
    try:
        status, text = message(api.get(f"{proxy}/a/b/?path=/x"))
        assert (status, text.rpartition(": ")[2]) == (422, "not there")
        assert api.get(f"{proxy}/a/").status == 200
    finally:
        api.delete(f"{policies}ybindings/paths")
        api.delete(f"{policies}ies/paths")
