"""What a server logs at the highest verbosity, in a run in which clients send secrets."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from tests.e2e.programs import Server, start, stop

SECRET = "hunter2"
"""Is in each secret, as it is or encoded."""
ENCODED = base64.b64encode(f"{SECRET}{SECRET}xx".encode()).decode()
NAMESPACE = "/api/v1/namespaces/default"
ACCOUNT = f"{NAMESPACE}/serviceaccounts/default/token"


def _send(server: Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    if "Authorization" not in headers:
        context.load_cert_chain(server.client_cert, server.client_key)
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=60, context=context)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, {"Content-Type": "application/json"} | sent)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _secret(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}, **fields}


def _send_secrets(server: Server) -> list[str]:
    """Send secrets in every place where clients have them. Return tokens that the server made."""
    secrets = f"{NAMESPACE}/secrets"
    bodies = (
        _secret("a", stringData={"password": SECRET}),
        _secret("b", data={"password": ENCODED}),
        _secret("c", data={"password": f"!{SECRET}"}),
        _secret("d", data={"password": ENCODED}, unknown=SECRET),
        _secret("a", stringData={"password": SECRET}),
        b'{"kind":"Secret","stringData":{"password":"' + SECRET.encode(),
    )
    for body in bodies:
        _send(server, "POST", f"{secrets}?fieldValidation=Warn&pretty={SECRET}", body)
    patch = json.dumps({"stringData": {"password": SECRET}, "immutable": SECRET}).encode()
    for media in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
        path = f"{secrets}/a?fieldManager=m&force=true"
        _send(server, "PATCH", path, patch, Content_Type=f"application/{media}")
    _send(server, "GET", f"{secrets}?access_token={SECRET}")
    _send(server, "GET", f"{secrets}?watch=true&timeoutSeconds=1&labelSelector=a%3D{SECRET}")
    basic = base64.b64encode(f"root:{SECRET}".encode()).decode()
    for value in (f"Bearer {SECRET}", f"Bearer {SECRET}.{ENCODED}.x", f"Basic {basic}"):
        assert _send(server, "GET", secrets, Authorization=value)[0] in (401, 403)
    assert _send(server, "GET", "/version", Authorization=f"Bearer {SECRET}-of-file")[0] == 200
    protocol = f"base64url.bearer.authorization.k8s.io.{ENCODED}"
    _send(
        server, "GET", f"{secrets}?watch=1", Authorization="", Sec_WebSocket_Protocol=protocol,
        Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13",
    )  # fmt: skip
    review = {"spec": {"token": f"{SECRET}-review"}}
    _send(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    status, body = _send(server, "POST", ACCOUNT, {"spec": {"audiences": []}})
    assert status == 201
    token = json.loads(body)["status"]["token"]
    assert _send(server, "GET", secrets, Authorization=f"Bearer {token}")[0] == 403
    _send(server, "GET", secrets, Authorization=f"Bearer {token}x")
    return [token]


def test_no_secrets_in_the_log(tmp_path: Path) -> None:
    """No line has a token, a password or data of a Secret, and each says what it is about."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{SECRET}-of-file,joe,1\n")
    flags = ("-vv", "--logging-format=json", f"--token-auth-file={tokens}")
    server = start(tmp_path, *flags)
    try:
        made = _send_secrets(server)
    finally:
        assert stop(server) == 0
    log = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in log.split("\n") if line.startswith("{")]
    assert sum(line["msg"] == "request" for line in lines) >= 20
    assert {line.get("user") for line in lines} >= {"joe", "system:serviceaccount:default:default"}
    for line in lines:
        assert line["logger"]
        assert line["msg"]
    for text in (SECRET, ENCODED, *made, *(token.rpartition(".")[2] for token in made)):
        assert text not in log
