"""An admission webhook for tests: a real HTTPS server whose responses a test chooses."""

import base64
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from tests.apiserver.conftest import Api
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply

GROUP = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {True: "mutatingwebhookconfigurations", False: "validatingwebhookconfigurations"}
_numbers = itertools.count(1)

Behave = Callable[[Any], Any]
"""Returns the response to the request of a review, without the uid; or a whole Reply."""


def allow(_request: Any) -> Any:
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Behave:
    """Return a behaviour that rejects every request with a Status."""
    if message:
        status["message"] = message
    return lambda _request: {"allowed": False, "status": status}


def patch(*operations: Any, **response: Any) -> Behave:
    """Return a behaviour that answers with a JSON patch."""
    text = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": text, **response}


def add(path: str, value: Any) -> Any:
    return {"op": "add", "path": path, "value": value}


def rule(*resources: str, **fields: Any) -> Any:
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources),
    } | fields


class Hook:
    """A webhook; `behave` makes the responses, `requests` are those of the reviews it received."""

    def __init__(self, credentials: Credentials | None, behave: Behave = allow) -> None:
        self.behave = behave
        self.reviews: list[Any] = []
        self.server = HttpsServer(credentials, self._respond)
        authority = credentials.ca.read_bytes() if credentials is not None else b""
        self.bundle = base64.b64encode(authority).decode()
        self._created: list[tuple[Api, str]] = []

    @property
    def requests(self) -> list[Any]:
        return [review["request"] for review in self.reviews]

    def _respond(self, received: Received) -> Reply:
        review = received.json
        self.reviews.append(review)
        response = self.behave(review["request"])
        if isinstance(response, Reply):
            return response
        kind = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        return Reply({**kind, "response": {"uid": review["request"]["uid"], **response}})

    def webhook(self, *rules: Any, name: str = "hook.example.com", **fields: Any) -> Any:
        """Return the webhook of a configuration that names this server."""
        return {
            "name": name,
            "clientConfig": {"url": f"{self.server.url}/admit", "caBundle": self.bundle},
            "rules": list(rules),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        } | fields

    def configure(
        self,
        api: Api,
        *rules: Any,
        mutating: bool = False,
        namespace: str = "",
        configuration: str = "",
        **fields: Any,
    ) -> str:
        """Create a configuration with one webhook and return its path. With `namespace` the webhook
        is for that namespace alone."""
        if namespace:
            labels = {"kubernetes.io/metadata.name": namespace}
            fields["namespaceSelector"] = {"matchLabels": labels}
        webhooks = [self.webhook(*rules, **fields)]
        return self.create(api, webhooks, mutating=mutating, configuration=configuration)

    def create(
        self, api: Api, webhooks: Any, *, mutating: bool = False, configuration: str = ""
    ) -> str:
        """Create a configuration of these webhooks and return its path."""
        name = configuration or f"hooks-{next(_numbers)}"
        path = f"{GROUP}/{_KINDS[mutating]}"
        created = api.post(path, {"metadata": {"name": name}, "webhooks": webhooks})
        assert created.status == 201, created.body
        assert created.warnings == []
        self._created.append((api, f"{path}/{name}"))
        return f"{path}/{name}"

    def end(self) -> None:
        for api, path in self._created:
            with contextlib.suppress(ConnectionError):  # a test may have ended the server
                api.delete(path)
        self.server.end()


def hook_credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """The certificates of a webhook at 127.0.0.1 and of the service `hook` in `default`. The
    function of a fixture with the scope of a module."""
    config = Config.of(bind_address="hook.default.svc")
    return ensure_certificates(config, Path(tmp_path_factory.mktemp("hook")))


def running_hook(credentials: Credentials) -> Iterator[Hook]:
    """A webhook that allows every request, until it gets another behaviour. The function of a
    fixture."""
    hook = Hook(credentials)
    yield hook
    hook.end()
