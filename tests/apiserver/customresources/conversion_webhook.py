"""A conversion webhook for tests: a real HTTPS server whose response a test chooses."""

import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kapiserver.apiserver.serving.tls.credentials import Credentials

FREE = {"type": "object", "properties": {"spec": {
    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip


Behave = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Raw:
    """A response that is not a ConversionReview."""

    body: bytes
    status: int = 200
    type: str = "application/json"
    lacking: int = 0


def split(obj: Any, api_version: str) -> Any:
    """Convert between v1, with `spec.first` and `spec.last`, and v1beta1, with `spec.name`."""
    spec = dict(obj.get("spec") or {})
    if api_version.endswith("/v1") and "name" in spec:
        spec["first"], _, spec["last"] = spec.pop("name").partition(" ")
    if api_version.endswith("/v1beta1") and "first" in spec:
        spec["name"] = f"{spec.pop('first')} {spec.pop('last')}"
    return {**obj, "apiVersion": api_version, "spec": spec}


def good(request: Any, _review: Any) -> Any:
    converted = [split(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    return {
        "uid": request["uid"],
        "convertedObjects": converted,
        "result": {"status": "Success"},
    }


class Webhook:
    """A conversion webhook; `behave` makes the response."""

    def __init__(self, credentials: Credentials) -> None:
        self.behave: Behave = good
        self.calls = 0
        self.hosts: set[tuple[str, str]] = set()
        self.over = threading.Event()
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                webhook.calls += 1
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.hosts.add((self.headers["Host"], self.path))
                raw = webhook.behave(review["request"], review)
                if not isinstance(raw, Raw):
                    kind = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
                    raw = Raw(json.dumps({**kind, "response": raw}).encode())
                self.send_response(raw.status)
                self.send_header("Content-Type", raw.type)
                self.send_header("Content-Length", str(len(raw.body) + raw.lacking))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(raw.body)
                if raw.lacking:
                    webhook.over.wait(20)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = credentials.server_context()
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}/convert"
        self.bundle = base64.b64encode(credentials.ca.read_bytes()).decode()
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def conversion(self, **config: Any) -> Any:
        client = {"url": self.url, "caBundle": self.bundle} | config
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def end(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
