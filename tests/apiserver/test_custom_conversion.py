"""Custom objects that a webhook converts: a real HTTPS server answers."""

import base64
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.tls import Credentials, credentials
from tests.apiserver.conftest import Api, Server
from tests.apiserver.customkit import definition, establish, path_of, version, widget

FREE = {"type": "object", "properties": {"spec": {
    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip

Behave = Callable[[Any, Any], Any]


def split(obj: Any, wanted: str) -> Any:
    """v1 has `spec.first` and `spec.last`, v1beta1 `spec.name`, one after the other."""
    spec = dict(obj.get("spec") or {})
    if wanted.endswith("/v1") and "name" in spec:
        spec["first"], _, spec["last"] = spec.pop("name").partition(" ")
    if wanted.endswith("/v1beta1") and "first" in spec:
        spec["name"] = f"{spec.pop('first')} {spec.pop('last')}"
    return {**obj, "apiVersion": wanted, "spec": spec}


def good(request: Any, _review: Any) -> Any:
    converted = [split(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {
        "uid": request["uid"],
        "convertedObjects": converted,
        "result": {"status": "Success"},
    }


class Webhook:
    """Converts as `behave` says."""

    def __init__(self, made: Credentials) -> None:
        self.behave: Behave = good
        self.asked = 0
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                webhook.asked += 1
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                response = webhook.behave(review["request"], review)
                kind = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
                body = json.dumps({**kind, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = made.server_context()
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/convert"
        self.bundle = base64.b64encode(made.ca.read_bytes()).decode()
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def conversion(self, **config: Any) -> Any:
        client = {"url": self.url, "caBundle": self.bundle} | config
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A server of these tests' own: it fills with groups."""
    server = Server()
    yield server.api
    server.end()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return credentials(Config(), Path(tmp_path_factory.mktemp("webhook")))


@pytest.fixture
def webhook(made: Credentials) -> Iterator[Webhook]:
    found = Webhook(made)
    yield found
    found.end()


def people(webhook: Webhook, **config: Any) -> Any:
    versions = (version("v1", FREE), version("v1beta1", FREE, storage=False))
    return definition(*versions, conversion=webhook.conversion(**config))


def test_each_version_shows_what_the_webhook_makes_of_it(api: Api, webhook: Webhook) -> None:
    """Objects are written, read, listed, watched, patched and deleted in a version that is not
    stored, whichever version they were written in."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "ada", spec={"first": "Ada", "last": "Lovelace"}))
    assert webhook.asked == 0
    assert api.get(f"{beta}/ada").json["spec"] == {"name": "Ada Lovelace"}
    with api.watch(f"{beta}?watch=1") as stream:
        assert stream.event()["object"]["spec"] == {"name": "Ada Lovelace"}
        created = api.post(beta, widget(crd, "alan", "v1beta1", spec={"name": "Alan Turing"}))
        assert created.status == 201, created.body
        assert stream.event()["object"]["spec"] == {"name": "Alan Turing"}
        stored = api.get(f"{path}/alan").json
        assert stored["spec"] == {"first": "Alan", "last": "Turing"}
        assert stored["metadata"]["resourceVersion"] == created.json["metadata"]["resourceVersion"]
        patched = api.patch(f"{beta}/alan", {"spec": {"name": "Alan M. Turing"}})
        assert patched.json["spec"] == {"name": "Alan M. Turing"}
        assert stream.event()["type"] == "MODIFIED"
        api.delete(f"{path}/alan")
        assert stream.event()["type"] == "DELETED"
    assert [one["spec"] for one in api.get(beta).json["items"]] == [{"name": "Ada Lovelace"}]


def unlike(change: Callable[[Any], None]) -> Behave:
    def behave(request: Any, review: Any) -> Any:
        response = good(request, review)
        change(response)
        return response

    return behave


def rename(response: Any) -> None:
    response["convertedObjects"][0]["metadata"]["name"] = "other"


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (
            unlike(lambda one: one.update(uid="other")),
            'failed: expected response.uid="',
        ),
        (
            unlike(lambda one: one.update(result={"status": "Failure", "message": "no way"})),
            "failed: no way",
        ),
        (
            unlike(lambda one: one.update(result={})),
            "failed: response.result.status was '', not 'Success'",
        ),
        (unlike(lambda one: one["convertedObjects"].clear()), "returned 0 objects, expected 1"),
        (
            unlike(lambda one: one["convertedObjects"][0].update(apiVersion="a.b/v7")),
            "invalid groupVersion (expected ",
        ),
        (unlike(rename), "must have the same name: a != other"),
        (lambda *_: None, "failed: no response provided"),
    ],
)
def test_bad_answers_are_refused(api: Api, webhook: Webhook, behave: Behave, message: str) -> None:
    """What a webhook must not say is an error in kube-apiserver's words; the stored version goes
    on, and the other comes back when the webhook does."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    webhook.behave = behave
    answer = api.get(f"{beta}/a")
    assert answer.status == 500
    kind = f"conversion webhook for {crd['spec']['group']}/v1, Kind=Widget"
    assert answer.message.startswith(kind)
    assert message in answer.message
    assert api.post(beta, widget(crd, "b", "v1beta1", spec={"name": "C D"})).status == 500
    assert api.get(f"{path}/a").status == 200
    webhook.behave = good
    assert api.get(f"{beta}/a").json["spec"] == {"name": "A B"}


def test_a_webhook_that_nobody_vouches_for_is_not_asked(api: Api, webhook: Webhook) -> None:
    """Without its CA bundle the certificate is not believed; nobody listens on the other port."""
    for config, words in (
        ({"caBundle": ""}, "certificate verify failed"),
        ({"url": "https://127.0.0.1:1/x"}, 'failed: Post "https://127.0.0.1:1/x?timeout=30s": '),
    ):
        crd = people(webhook, **config)
        path = establish(api, crd)
        api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
        answer = api.get(path_of(crd, "v1beta1"))
        assert answer.status == 500
        assert words in answer.message
