"""Faults of admission webhooks: the request fails as the failurePolicy says, and no other waits."""

import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kapiserver.apiserver.serving.tls.credentials import Credentials
from tests.apiserver.admission.hookkit import Hook, add, hook_credentials, patch, rule, running_hook
from tests.apiserver.conftest import Api, Server
from tests.apiserver.proxy.https_server import Reply

FAILED = 'Internal error occurred: failed calling webhook "hook.example.com": '
CALL_FAILED = f"{FAILED}failed to call webhook: "


credentials = pytest.fixture(scope="module")(hook_credentials)
hook = pytest.fixture(running_hook)


class RawServer:
    """A TLS server that answers each connection with a function of its socket."""

    def __init__(self, credentials: Credentials, answer: Callable[[ssl.SSLSocket], None]) -> None:
        self.over = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self._context = credentials.server_context()
        self._answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),  # the client has gone
            connection,
            self._context.wrap_socket(connection, server_side=True) as wrapped,
        ):
            wrapped.recv(1 << 16)
            self._answer(wrapped)

    def end(self) -> None:
        self.over.set()
        self._socket.close()


@pytest.fixture
def raw(credentials: Credentials) -> Iterator[Callable[..., RawServer]]:
    servers: list[RawServer] = []

    def make(answer: Callable[[ssl.SSLSocket], None]) -> RawServer:
        servers.append(RawServer(credentials, answer))
        return servers[-1]

    yield make
    for server in servers:
        server.end()


def create(api: Api, core: str, name: str = "m") -> Any:
    return api.post(f"{core}/configmaps", {"metadata": {"name": name}})


def use(hook: Hook, api: Api, namespace: str, url: str = "", **fields: Any) -> None:
    """Configure the webhook for ConfigMaps of a namespace; at another URL than the hook's."""
    if url:
        fields["clientConfig"] = {"url": f"{url}/admit", "caBundle": hook.bundle}
    hook.configure(api, rule("configmaps"), namespace=namespace, **fields)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, so that nobody else takes it, and not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_refused(api: Api, core: str, namespace: str, hook: Hook, closed_port: int) -> None:
    """A webhook that refuses connections fails the request."""
    port = closed_port
    use(hook, api, namespace, f"https://127.0.0.1:{port}")
    response = create(api, core)
    assert (response.status, response.json["reason"]) == (500, "InternalError")
    assert response.message == (
        f'{CALL_FAILED}Post "https://127.0.0.1:{port}/admit?timeout=10s": dial tcp '
        f"127.0.0.1:{port}: connect: connection refused"
    )


def test_failure_policy(api: Api, core: str, namespace: str, hook: Hook, closed_port: int) -> None:
    """With failurePolicy Ignore the failure of a webhook is ignored, but not its rejection."""
    use(hook, api, namespace, f"https://127.0.0.1:{closed_port}", failurePolicy="Ignore")
    assert create(api, core).status == 201
    hook.behave = lambda _request: {"allowed": False}
    use(hook, api, namespace, failurePolicy="Ignore")
    assert create(api, core, "n").status == 400


def test_hanging(api: Api, core: str, namespace: str, hook: Hook, raw: Any) -> None:
    """A webhook that does not answer fails the request after its timeout; meanwhile other requests
    and other webhooks are answered."""
    was_called = threading.Event()

    def hang(_connection: ssl.SSLSocket) -> None:
        was_called.set()
        server.over.wait(30)

    server = raw(hang)
    use(hook, api, namespace, server.url, timeoutSeconds=1)
    hook.configure(api, rule("secrets"), namespace=namespace)
    responses: list[Any] = []
    threads = [
        threading.Thread(target=lambda name=name: responses.append(create(api, core, name)))
        for name in ("a", "b", "c")
    ]
    for thread in threads:
        thread.start()
    assert was_called.wait(30)
    assert api.post(f"{core}/secrets", {"metadata": {"name": "s"}}).status == 201
    for thread in threads:
        thread.join(30)
    assert len(hook.requests) == 1
    message = f'{CALL_FAILED}Post "{server.url}/admit?timeout=1s": context deadline exceeded'
    assert [(response.status, response.message) for response in responses] == [(500, message)] * 3


def test_hanging_webhook_of_all_mutating_requests_in_flight(
    make_server: Callable[..., Server], hook: Hook, raw: Any
) -> None:
    """Requests that wait for a webhook count as in flight: more writes get 429, and reads go on."""
    was_called = threading.Event()

    def hang(_connection: ssl.SSLSocket) -> None:
        was_called.set()
        server.over.wait(30)

    server = raw(hang)
    api = make_server(
        enable_priority_and_fairness=False,
        max_mutating_requests_inflight=1,
        authorization_mode=("AlwaysAllow",),
    ).api
    as_jane = {"headers": {"Impersonate-User": "jane"}}  # system:masters is exempt
    core = "/api/v1/namespaces/default"
    use(hook, api, "default", server.url, timeoutSeconds=30, failurePolicy="Ignore")
    responses: list[Any] = []
    waiting = threading.Thread(target=lambda: responses.append(create(api, core)))
    waiting.start()
    assert was_called.wait(30)
    secret = {"metadata": {"name": "s"}}
    refused = api.post(f"{core}/secrets", secret, **as_jane)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert api.get(f"{core}/configmaps", **as_jane).status == 200
    assert api.get("/readyz").status == 200
    server.end()
    waiting.join(30)
    assert [response.status for response in responses] == [201]
    assert api.post(f"{core}/secrets", secret, **as_jane).status == 201


def test_slow_dribble(api: Api, core: str, namespace: str, hook: Hook, raw: Any) -> None:
    """A response that comes byte by byte counts against the timeout as a whole."""

    def dribble(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not server.over.wait(0.05):
            connection.sendall(b" ")

    server = raw(dribble)
    use(hook, api, namespace, server.url, timeoutSeconds=1)
    response = create(api, core)
    assert (response.status, response.message) == (
        500,
        f'{CALL_FAILED}Post "{server.url}/admit?timeout=1s": context deadline exceeded',
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect(
    api: Api, core: str, namespace: str, hook: Hook, credentials: Credentials, status: int
) -> None:
    """Redirects are not followed: a webhook must not make the server call others."""
    other = Hook(credentials)
    hook.behave = lambda _request: Reply(status=status, headers={"Location": other.server.url})
    use(hook, api, namespace)
    response = create(api, core)
    other.end()
    assert other.reviews == []
    assert (response.status, response.message) == (
        500,
        f"{CALL_FAILED}the server responded with the status code {status} but did not return more "
        "information",
    )


def review(response: Any, version: str = "v1") -> Reply:
    return Reply(
        {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview"} | response
    )


INVALID = f"{FAILED}received invalid webhook response: "


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda _: {"uid": "other", "allowed": True}, 'expected response.uid="UID", got "other"'),
        (lambda _: Reply(b"no JSON"),
         "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go"),
        (lambda _: Reply(b"{no"), "invalid character 'n' looking for beginning of object key"),
        (lambda _: Reply(b""),
         "0-length response with status code: 200 and content type: application/json"),
        (lambda _: Reply(b"[" * 100_000), "exceeded max depth"),
        (lambda _: Reply(b"[]"), "couldn't get version/kind; json parse error: "),
        (lambda _: review({}), "webhook response was absent"),
        (lambda _: review({"response": {"allowed": 1}}),
         "json: cannot unmarshal number into Go struct field AdmissionResponse.response.allowed of "
         "type bool"),
        (lambda _: review({"response": {"allowed": True}}, "v1beta1"),
         "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"),
        (lambda request: Reply({"response": {"uid": request["uid"], "allowed": True}}),
         "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        (lambda _: Reply(b"broken", 500, {"Content-Type": "text/plain"}),
         'an error on the server ("broken") has prevented the request from succeeding'),
        (lambda _: Reply(b"", 404), "the server could not find the requested resource"),
    ],
)  # fmt: skip
def test_bad_response(
    api: Api, core: str, namespace: str, hook: Hook, reply: Any, message: str
) -> None:
    """A response that is no AdmissionReview for the request fails it."""
    hook.behave = reply
    use(hook, api, namespace)
    response = create(api, core)
    assert response.status == 500
    assert response.message.startswith(FAILED)
    assert message.replace("UID", hook.requests[0]["uid"]) in response.message


def test_large_response(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A response of 10 MB is not read to its end."""
    hook.behave = lambda _request: Reply(b" " * (10 << 20))
    use(hook, api, namespace)
    response = create(api, core)
    assert (response.status, response.message) == (
        500,
        f"{CALL_FAILED}the response is larger than 8388608 bytes",
    )


@pytest.mark.parametrize(
    ("operations", "status", "message"),
    [
        ([{"op": "remove", "path": "/data/none"}], 500, "Internal error occurred: "),
        ([add("/data", 1)], 500, "Internal error occurred: json: cannot unmarshal"),
        ([add("/kind", "Secret")], 500, "Internal error occurred: unable to convert a"),
        ([add("/apiVersion", "x")], 500, "Internal error occurred: "),
        ([{"op": "replace", "path": "", "value": None}], 500, "Internal error occurred: "),
        ([{"op": "replace", "path": "", "value": []}], 500, "Internal error occurred: "),
        ([add("/metadata/labels", {"a": "not valid"})], 422, "ConfigMap "),
        ([add("/metadata/name", "")], 422, "ConfigMap "),
        ([add("/metadata/namespace", "other")], 400, "the namespace of the provided object"),
        (["x"], 500, f"{FAILED}received undecodable patch in webhook response: "),
        ({"op": "add"}, 500, f"{FAILED}received undecodable patch in webhook response: "),
    ],
)  # fmt: skip
def test_patch_that_breaks_the_object(
    api: Api, core: str, namespace: str, hook: Hook, operations: Any, status: int, message: str
) -> None:
    """A patch that does not apply, or whose result is invalid, fails the request."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    hook.behave = lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": text}
    use(hook, api, namespace, mutating=True)
    response = create(api, core)
    assert response.status == status, response.body
    assert response.message.startswith(message), response.message
    assert api.get(f"{core}/configmaps/m").status == 404


def test_patch_of_a_delete(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A delete has no object that a webhook could change."""
    create(api, core)
    hook.behave = patch(add("/data", {}))
    use(hook, api, namespace, mutating=True)
    response = api.delete(f"{core}/configmaps/m")
    assert (response.status, response.message) == (
        500,
        'Internal error occurred: admission webhook "hook.example.com" attempted to modify the '
        "object, which is not supported for this operation",
    )


def test_hook_that_calls_the_server(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook may read and write while it is asked. If it is asked about its own write, the
    inner request times out, and so does the outer one."""
    answers: list[int] = []

    def write(request: Any) -> Any:
        if request["name"] == "m":
            answers.append(api.post(f"{core}/secrets", {"metadata": {"name": "s"}}).status)
            answers.append(api.get(f"{core}/configmaps").status)
        return {"allowed": True}

    hook.behave = write
    use(hook, api, namespace)
    assert create(api, core).status == 201
    assert answers == [201, 200]


def test_hook_that_is_asked_about_its_own_write(
    api: Api, core: str, namespace: str, hook: Hook
) -> None:
    """A webhook that writes objects that it is asked about ends with its timeout."""
    depth = 3

    def recurse(request: Any) -> Any:
        number = int(request["name"].removeprefix("m"))
        if number < depth:
            create(api, core, f"m{number + 1}")
        return {"allowed": True}

    hook.behave = recurse
    use(hook, api, namespace, timeoutSeconds=30)
    assert create(api, core, "m0").status == 201
    names = [request["name"] for request in hook.requests]
    assert names == ["m0", "m1", "m2", "m3"]


def test_own_configuration(api: Api, hook: Hook) -> None:
    """No webhook is asked about webhook configurations, so that a broken one can be deleted."""
    any_resource = rule("*/*")
    any_resource["resources"] = ["*/*"]
    hook.behave = lambda _request: {"allowed": False}
    only = {"matchConditions": []}
    for mutating in (True, False):
        path = hook.configure(
            api,
            {**any_resource, "apiGroups": ["admissionregistration.k8s.io"]},
            mutating=mutating,
            **only,
        )
        assert api.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
        assert api.delete(path).status == 200
    assert hook.requests == []


def test_untrusted_certificate(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook must have a certificate of the CA bundle, for the host of its URL."""
    client = {"url": f"{hook.server.url}/admit"}
    hook.configure(api, rule("configmaps"), namespace=namespace, clientConfig=client)
    response = create(api, core)
    assert response.status == 500
    assert response.message.endswith(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )


def test_unknown_host(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A host without an address fails the request."""
    use(hook, api, namespace, "https://hook.invalid")
    assert create(api, core).message == (
        f'{CALL_FAILED}Post "https://hook.invalid/admit?timeout=10s": dial tcp: lookup '
        "hook.invalid: no such host"
    )


def test_missing_service(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A service that does not exist, or has no endpoints, fails the request."""
    service = {"name": "hook", "namespace": "default", "path": "/admit"}
    client = {"service": service, "caBundle": hook.bundle}
    hook.configure(api, rule("configmaps"), namespace=namespace, clientConfig=client)
    assert create(api, core).message == (
        f'{CALL_FAILED}Post "https://hook.default.svc:443/admit?timeout=10s": service "hook" not '
        "found"
    )
