"""An HTTPS server for tests of clients: a webhook or an issuer whose response a test chooses."""

import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates


@dataclass(frozen=True)
class Received:
    """A request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A response; a body that is not bytes is encoded as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class HttpsServer:
    """Serves HTTPS, or HTTP without credentials, on a free port.

    `respond` makes each response, `received` has the requests. A test that lets a response wait
    ends the wait with `over`, which `end` sets.
    """

    def __init__(
        self, credentials: Credentials | None, respond: Callable[[Received], Reply]
    ) -> None:
        self.respond = respond
        self.received: list[Received] = []
        self.over = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received = Received(self.command, self.path, headers, body)
                server.received.append(received)
                reply = server.respond(received)
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json"} | reply.headers
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.data)))
                self.end_headers()
                self.wfile.write(reply.data)

            do_POST = do_GET

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:  # the client has gone
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.authority = ""
        if credentials is not None:
            self._server.socket = credentials.server_context().wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.url = f"https://127.0.0.1:{self.port}"
            self.authority = str(credentials.ca)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def end(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class StatusWebhook:
    """A webhook that responds to each review with a status that the test sets.

    parts   further members of the response
    file    a kubeconfig file for the webhook
    """

    def __init__(self, folder: Path, status: Any) -> None:
        self.status = status
        self.code = 200
        self.parts: Any = {}
        self.server = HttpsServer(ensure_certificates(Config(), folder), self._respond)
        self.file = folder / "kubeconfig"
        self.file.write_text(kubeconfig(self.server))

    def _respond(self, received: Received) -> Reply:
        return Reply({**received.json, "status": self.status, **self.parts}, status=self.code)

    @property
    def reviews(self) -> list[Any]:
        return [received.json for received in self.server.received]

    @property
    def specs(self) -> list[Any]:
        return [review["spec"] for review in self.reviews]


def kubeconfig(server: HttpsServer, user: dict[str, Any] | None = None, **cluster: Any) -> str:
    """Return the text of a kubeconfig file for the server."""
    cluster = {
        "server": f"{server.url}/review",
        "certificate-authority": server.authority,
    } | cluster
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
