"""A whole server over TLS: the protocol is negotiated, and clients of both share the handlers."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve
from tests.apiserver.serving.http2.clientkit import connect


def client_context(server: RunningServer, *protocols: str) -> ssl.SSLContext:
    """The context of an administrator who offers protocols."""
    credentials = server.credentials
    assert credentials is not None
    context = ssl.create_default_context(cafile=str(credentials.ca))
    context.load_cert_chain(credentials.admin.certificate, credentials.admin.key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1")])
async def test_negotiation(tmp_path: Path, protocols: tuple[str, ...]) -> None:
    """A client gets the protocol that it offers; one that offers nothing gets HTTP/1.1."""
    config = Config.of(cert_dir=tmp_path, disable_http2_serving=False)
    async with serve(config) as server:
        port = int(server.url.rpartition(":")[2])
        tls = client_context(server, *protocols)
        if "h2" in protocols:
            client = await connect(port, tls)
            answer = await client.get("/api/v1/namespaces")
            body = answer.body
            watch = await client.send("/api/v1/namespaces?watch=1")
            while not client.answers[watch].body:
                await client.read()
            client.abort()
        else:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname="localhost"
            )
            writer.write(b"GET /api/v1/namespaces HTTP/1.0\r\n\r\n")
            body = (await reader.read()).partition(b"\r\n\r\n")[2]
            writer.transport.abort()  # a TLS close would wait for the server
    assert json.loads(body)["kind"] == "NamespaceList"


async def test_create(tmp_path: Path) -> None:
    """Objects are created and read, and a bad request gets a Status."""
    config = Config.of(cert_dir=tmp_path, disable_http2_serving=False)
    async with serve(config) as server:
        port = int(server.url.rpartition(":")[2])
        client = await connect(port, client_context(server, "h2"))
        path = "/api/v1/namespaces/default/configmaps"
        for body, status in ((b'{"metadata":{"name":"a"}}', 201), (b"{", 400)):
            stream = await client.send(path, "POST", body=body)
            assert (await client.wait(stream)).status == status
        assert (await client.get(f"{path}/a")).status == 200
        refused = await client.get("/api/v1/namespaces/default/pods/a/exec?command=a")
        assert json.loads(refused.body)["kind"] == "Status"
        client.abort()
