"""Requests that the listener refuses: malformed HTTP, and HTTP that Go's server refuses."""

import asyncio
import json
import socket
import ssl
from contextlib import suppress

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.http1.lingering_close import LINGER_BYTES
from kapiserver.apiserver.serving.http1.request_parser import LINE_LIMIT
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from tests.apiserver.serving.listenerkit import get_request, listening, send_once


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a% HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(9),
)
def test_garbage(garbage: bytes) -> None:
    """Bytes that are not HTTP get a plain 400, and the server goes on."""

    async def request_twice() -> tuple[bytes, bytes]:
        async with listening() as (_, send):
            return await send(garbage), await send(get_request("/still"))

    first, second = asyncio.run(request_twice())
    assert first.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert first.endswith(b"\r\n\r\n400 Bad Request")
    assert second.endswith(b"GET /still []")


_TOO_LARGE = b"431 Request Header Fields Too Large"
_NO_HOST = b"400 Bad Request: missing required Host header"
_VERSION = b"505 HTTP Version Not Supported: unsupported protocol version"
_BAD_REQUEST = b"400 Bad Request"
_EXPECTATION_FAILED = b"417 Expectation Failed"
_POST = b"POST /body HTTP/1.1\r\nHost: x\r\n"
_POST_1_0 = b"POST /body HTTP/1.0\r\n"


@pytest.mark.parametrize(
    ("request_", "line", "text"),
    [
        (b"GET /" + b"a" * (LINE_LIMIT + 10) + b" HTTP/1.1\r\n\r\n", _TOO_LARGE, _TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n", _TOO_LARGE, _TOO_LARGE),
        (b"GET / HTTP/1.1\r\n\r\n", _NO_HOST, _NO_HOST),
        (b"GET / HTTP/9.9\r\n\r\n", _VERSION, _VERSION),
        *(
            (_POST + b"Transfer-Encoding: " + encoding + b"\r\n\r\n0\r\n\r\n",
             b"501 Not Implemented", b"Unsupported transfer encoding")
            for encoding in (b"gzip", b"gzip, chunked", b"identity, chunked",
                             b"chunked\r\nTransfer-Encoding: chunked")
        ),
        (_POST_1_0 + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", *[_BAD_REQUEST] * 2),
        (_POST + b"Expect: x\r\nContent-Length: 1\r\n\r\na", *[_EXPECTATION_FAILED] * 2),
        (b"CONNECT x:1%zz HTTP/1.1\r\nHost: x:1\r\n\r\n", *[_BAD_REQUEST] * 2),
    ],
    ids=range(11),
)  # fmt: skip
def test_errors_of_go_server(request_: bytes, line: bytes, text: bytes) -> None:
    """Errors that Go's HTTP server handles by itself get the same plain text."""
    assert send_once(request_) == (
        b"HTTP/1.1 " + line + b"\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Connection: close\r\n\r\n" + text
    )


def test_refused_requests_end_their_connection() -> None:
    """The bytes after a request that is refused are never read as another request."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    for refused in (
        _POST_1_0 + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Expect: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
    ):
        assert b"smuggled" not in send_once(refused + smuggled)


def test_no_continue_in_http_1_0() -> None:
    """HTTP/1.0 has no status 100."""
    head = _POST_1_0 + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\na"
    assert send_once(head).startswith(b"HTTP/1.1 200 OK\r\n")


_CHUNKS = _POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b"zz\r\n", "invalid byte in chunk length"),
        (b"2\r\nabX", "malformed chunked encoding"),
        (b"f" * 20 + b"\r\n", "http chunk length too large"),
    ],
    ids=range(3),
)
@pytest.mark.parametrize("late", [False, True])
def test_broken_chunks(broken: bytes, message: str, late: bool) -> None:
    """A malformed chunk, early or late in the body, is reported at once as an error of its request,
    and the connection is closed."""

    async def scenario() -> bytes:
        async with listening() as (listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_CHUNKS + (b"" if late else broken))
            if late:
                while not any(connection.body.received for connection in listener.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                writer.write(broken)
            response = await reader.read()
            writer.close()
            return response

    assert asyncio.run(asyncio.wait_for(scenario(), 30)).endswith(message.encode())


@pytest.mark.parametrize(
    ("request_", "line", "message"),
    [
        ("FOO /api/v1/pods", "405 Method Not Allowed", "the server does not allow this method on"),
        ("CONNECT x:1", "405 Method Not Allowed", "the server does not allow this method on"),
        ("CONNECT /api", "405 Method Not Allowed", "the server does not allow this method on"),
        ("get /api/v1/pods", "405 Method Not Allowed", "the server does not allow this method on"),
        ("POST /api/v1/namespaces", "400 Bad Request", "invalid byte in chunk length"),
    ],
)
def test_http_errors_are_statuses(api, request_: str, line: str, message: str) -> None:
    """An unknown method and a malformed body get a Status."""
    headers = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    text = f"{request_} HTTP/1.1\r\n{headers}\r\n\r\nzz\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as connection:
        connection.sendall(text.encode())
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {line}\r\n".encode())
    assert b"Content-Type: application/json\r\n" in head
    status = json.loads(body)
    assert (status["kind"], status["code"]) == ("Status", int(line[:3]))
    assert status["message"].startswith(message)


_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_EARLY = [
    (_CHUNKED + b"zz\r\n", b"400 "),
    (_CHUNKED + b"1\r\naXX", b"400 "),
    (_CHUNKED + b"1;" + b"e" * 100_000, b"400 "),
    (_CHUNKED + b"0\r\n" + b"a" * 100_000, b"400 "),
    (_CHUNKED + b"0\r\n" + b"a: b\r\n" * 300_000, b"400 "),
    (_POST + b"Connection: close\r\nContent-Length: 5000000\r\n\r\n", b"413 "),
    (_POST + b"Content-Length: x\r\n\r\n", b"400 "),
    (_POST + b"Expect: more\r\n\r\n", b"417 "),
    (_POST + b"Transfer-Encoding: gzip\r\n\r\n", b"501 "),
    (b"POST /body HTTP/1.1\r\n\r\n", b"400 "),
    (b"POST /body HTTP/3.0\r\n\r\n", b"505 "),
    (b"POST /" + b"a" * LINE_LIMIT, b"431 "),
    (b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 300, b"431 "),
    (b"WALK / HTTP/1.1\r\nHost: x\r\n\r\n", b"409 "),
    (b"\r\n" * 1_000_000, b"431 "),
    (b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nWALK / HTTP/1.1\r\n\r\n", b"200 "),
]
"""What a server refuses before it has read everything, and the status of the first response."""


@pytest.mark.parametrize(
    ("refused", "status", "has_tls"),
    [*((*each, False) for each in _EARLY), (*_EARLY[0], True), (*_EARLY[-1], True)],
    ids=range(len(_EARLY) + 2),
)
def test_early_refusals(
    refused: bytes, status: bytes, has_tls: bool, certificates: Credentials
) -> None:
    """A client that goes on sending after the server has refused its request gets the response and
    an orderly end of the connection, no reset."""

    async def run() -> bytes:
        server_tls, client_tls = contexts(certificates) if has_tls else (None, None)
        async with listening(server_tls) as (listener, _):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", listener.port, ssl=client_tls
            )
            writer.write(refused)
            for _ in range(100):
                writer.write(b"x" * 50_000)
                await writer.drain()
            response = await reader.read()
            writer.close()
            await writer.wait_closed()
            return response

    response = asyncio.run(run())
    assert response.startswith(b"HTTP/1.1 " + status)


def test_endless_client() -> None:
    """A client that sends for ever after the response is cut off."""

    piece = b"x" * 1_000_000

    async def run() -> None:
        async with listening() as (listener, _):
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            with suppress(ConnectionError):
                writer.write(_CHUNKED + b"zz\r\n")
                for _ in range(2 * LINGER_BYTES // len(piece)):
                    writer.write(piece)
                    await writer.drain()
                raise AssertionError("the server reads too much")
            writer.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return ensure_certificates(Config(), tmp_path_factory.mktemp("certificates"))


def contexts(certificates: Credentials) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.serving.certificate, certificates.serving.key)
    client = ssl.create_default_context(cafile=str(certificates.ca))
    client.check_hostname = False
    return server, client
