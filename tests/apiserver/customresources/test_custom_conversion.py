"""Conversion of custom objects by a webhook, which is a real HTTPS server."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from kapiserver.apiserver.webhooks import client_config, http_client
from tests.apiserver.conftest import Api, api_of_new_server
from tests.apiserver.customresources.conversion_webhook import FREE, Behave, Raw, Webhook, good
from tests.apiserver.customresources.customkit import (
    apply,
    definition,
    establish,
    path_of,
    version,
    widget,
)
from tests.apiserver.metrics.scrapes import scrape, value_of

api = pytest.fixture(scope="module")(api_of_new_server)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    config = Config.of(bind_address="hook.default.svc")
    return ensure_certificates(config, Path(tmp_path_factory.mktemp("webhook")))


@pytest.fixture
def webhook(credentials: Credentials) -> Iterator[Webhook]:
    server = Webhook(credentials)
    yield server
    server.end()


def people(webhook: Webhook, **config: Any) -> Any:
    versions = (version("v1", FREE), version("v1beta1", FREE, storage=False))
    return definition(*versions, conversion=webhook.conversion(**config))


def test_conversion_between_versions(api: Api, webhook: Webhook) -> None:
    """Objects of any version are created, read, listed, watched, patched and deleted in a version
    that is not the storage version."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "ada", spec={"first": "Ada", "last": "Lovelace"}))
    assert webhook.calls == 0
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
    assert [person["spec"] for person in api.get(beta).json["items"]] == [{"name": "Ada Lovelace"}]
    samples = scrape(api)
    succeeded = {"result": "success", "failure_type": ""}
    assert value_of(samples, "apiserver_conversion_webhook_request_total", **succeeded) >= 3
    by_definition = "apiserver_crd_conversion_webhook_duration_seconds_count"
    versions = {"from_version": "v1beta1", "to_version": "v1", "succeeded": "true"}
    assert value_of(samples, by_definition, crd_name=crd["metadata"]["name"], **versions) >= 1


def unlike(change: Callable[[Any], None]) -> Behave:
    def behave(request: Any, review: Any) -> Any:
        response = good(request, review)
        change(response)
        return response

    return behave


def metadata(**changes: Any) -> Behave:
    def change(response: Any) -> None:
        response["convertedObjects"][0]["metadata"].update(changes)

    return unlike(change)


def object_(**changes: Any) -> Behave:
    return unlike(lambda response: response["convertedObjects"][0].update(changes))


def raw(body: bytes = b"", **more: Any) -> Behave:
    return lambda *_: Raw(body, **more)


def other_version(request: Any, review: Any) -> Any:
    kind = {"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"}
    return Raw(json.dumps({**kind, "response": good(request, review)}).encode())


STATUS = b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no, thanks"}'
REVIEW = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got "
BAD: dict[str, tuple[Behave, str]] = {
    "uid": (unlike(lambda review: review.update(uid="other")), ' failed: expected response.uid="'),
    "failure": (
        unlike(lambda review: review.update(result={"status": "Failure", "message": "no way"})),
        " failed: no way",
    ),
    "no result": (
        unlike(lambda review: review.update(result={})),
        " failed: response.result.status was '', not 'Success'",
    ),
    "too few": (
        unlike(lambda review: review["convertedObjects"].clear()),
        " returned 0 objects, expected 1",
    ),
    "too many": (
        unlike(lambda review: review["convertedObjects"].extend(review["convertedObjects"])),
        " returned 2 objects, expected 1",
    ),
    "version": (
        object_(apiVersion="a.b/v7"),
        " returned invalid object at index 0: invalid groupVersion (expected ",
    ),
    "kind": (
        object_(kind="Other"),
        " returned invalid object at index 0: invalid kind (expected Widget, received Other)",
    ),
    "name": (
        metadata(name="other"),
        " returned invalid object: must have the same name: a != other",
    ),
    "namespace": (
        metadata(namespace="kube-system"),
        " returned invalid object: must have the same namespace: default != kube-system",
    ),
    "another uid": (metadata(uid="1"), " returned invalid object: must have the same UID: "),
    "labels": (
        metadata(labels={"a": 1}),
        " returned invalid metadata: metadata.labels[a] must be a string, but is int64 in "
        "converted object",
    ),
    "annotations": (
        metadata(annotations=["a"]),
        " returned invalid metadata: invalid metadata.annotations of type []interface {} in "
        "converted object",
    ),
    "wrong labels": (
        metadata(labels={"a": "b c"}),
        ' returned invalid metadata: metadata.labels: Invalid value: "b c": a valid label must',
    ),
    "wrong annotations": (
        metadata(annotations={"a b": "c"}),
        ' returned invalid metadata: metadata.annotation: Invalid value: "a b": name part must',
    ),
    "metadata": (
        object_(metadata=None),
        " returned invalid metadata: invalid metadata of type <nil> in converted object",
    ),
    "no metadata": (
        unlike(lambda review: review["convertedObjects"][0].pop("metadata")),
        " returned invalid metadata: missing metadata in converted object",
    ),
    "no response": (lambda *_: None, " failed: no response provided"),
    "another review": (other_version, f" failed: {REVIEW}apiextensions.k8s.io/v1beta1, Kind=Con"),
    "no review": (raw(b"{}"), f" failed: {REVIEW}/, Kind="),
    "no JSON": (raw(b"<html>"), " failed: "),
    "nothing": (raw(b""), " failed: "),
    "no object": (raw(b"[]"), " failed: "),
    "status 500": (
        raw(b"boom\n", status=500, type="text/plain"),
        ' failed: an error on the server ("boom") has prevented the request from succeeding',
    ),
    "status 404": (
        raw(b"", status=404),
        " failed: the server could not find the requested resource",
    ),
    "status 403": (raw(b"go away", status=403, type="text/plain"), " failed: go away"),
    "a redirection": (raw(status=302), " failed: the server responded with the status code 302"),
    "a Status": (raw(STATUS, status=422), " failed: no, thanks"),
}


@pytest.mark.parametrize(("behave", "message"), BAD.values(), ids=BAD)
def test_invalid_webhook_responses(
    api: Api, webhook: Webhook, behave: Behave, message: str
) -> None:
    """An invalid response is an error with kube-apiserver's message. The storage version stays
    readable, and the other one is readable again when the webhook recovers."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    webhook.behave = behave
    response = api.get(f"{beta}/a")
    assert response.status == 500
    kind = f"conversion webhook for {crd['spec']['group']}/v1, Kind=Widget"
    assert response.message.startswith(kind + message)
    assert api.post(beta, widget(crd, "b", "v1beta1", spec={"name": "C D"})).status == 500
    assert api.get(f"{path}/a").status == 200
    webhook.behave = good
    assert api.get(f"{beta}/a").json["spec"] == {"name": "A B"}


def test_watch_ends_if_conversion_fails(api: Api, webhook: Webhook) -> None:
    """A watch ends if an event cannot be converted; the next request gets the webhook's error."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    with api.watch(f"{beta}?watch=1") as stream:
        webhook.behave = raw(status=500)
        api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
        response = api.get(f"{beta}/a")
        assert (response.status, "conversion webhook for" in response.message) == (500, True)
        assert stream.event() is None
    webhook.behave = good
    assert api.get(f"{beta}/a").json["spec"] == {"name": "A B"}


def test_untrusted_webhook(api: Api, webhook: Webhook) -> None:
    """Requests fail if the CA bundle does not match the certificate or nothing listens on the
    port."""
    for config, words in (
        (
            {"caBundle": ""},
            f'failed: Post "{webhook.url}?timeout=30s": tls: failed to verify certificate: x509: '
            "certificate signed by unknown authority",
        ),
        (
            {"url": "https://127.0.0.1:1/x"},
            'failed: Post "https://127.0.0.1:1/x?timeout=30s": dial tcp 127.0.0.1:1: connect: '
            "connection refused",
        ),
    ):
        crd = people(webhook, **config)
        path = establish(api, crd)
        api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
        response = api.get(path_of(crd, "v1beta1"))
        assert response.status == 500
        assert response.message.endswith(words)


def test_certificate_as_ca_bundle(api: Api, webhook: Webhook, credentials: Credentials) -> None:
    """The CA bundle may be the webhook's own certificate, as envtest's is."""
    bundle = base64.b64encode(credentials.serving.certificate.read_bytes()).decode()
    crd = people(webhook, caBundle=bundle)
    api.post(establish(api, crd), widget(crd, "a", spec={"first": "A", "last": "B"}))
    assert api.get(f"{path_of(crd, 'v1beta1')}/a").status == 200


def test_path_of_url(api: Api, webhook: Webhook) -> None:
    """Empty parts of the path, and a slash at its end, are not requested, as by client-go."""
    crd = people(webhook, url=webhook.url.replace("/convert", "//a//convert/"))
    api.post(establish(api, crd), widget(crd, "a", spec={"first": "A", "last": "B"}))
    assert api.get(f"{path_of(crd, 'v1beta1')}/a").status == 200
    assert {path.partition("?")[0] for _, path in webhook.hosts} == {"/a/convert"}


def test_converted_object_without_kind(api: Api, webhook: Webhook) -> None:
    """The error message shows the converted object if it has no kind."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    webhook.behave = unlike(lambda review: review.update(convertedObjects=[{"a": 1}]))
    response = api.get(f"{beta}/a")
    assert (response.status, response.message) == (500, "Object 'Kind' is missing in '{\"a\":1}'")


def test_v1beta1_review(api: Api, webhook: Webhook) -> None:
    """A v1beta1 ConversionReview response may have an empty uid."""
    crd = people(webhook)
    crd["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = ["v7", "v1beta1"]
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    review_versions: list[str] = []

    def behave(request: Any, review: Any) -> Any:
        review_versions.append(review["apiVersion"])
        return Raw(json.dumps({"response": {**good(request, review), "uid": ""}}).encode())

    webhook.behave = behave
    assert api.get(f"{beta}/a").json["spec"] == {"name": "A B"}
    assert review_versions == ["apiextensions.k8s.io/v1beta1"]


def test_webhook_changes_labels_and_annotations_only(api: Api, webhook: Webhook) -> None:
    """The webhook changes labels and annotations; other changes of metadata are ignored."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    created = api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"})).json["metadata"]
    webhook.behave = metadata(
        labels={"x": "y"}, annotations={"b": "c"}, finalizers=["a/b"], generation=7, other="x"
    )
    converted = api.get(f"{beta}/a").json["metadata"]
    assert converted.pop("labels") == {"x": "y"}
    assert converted.pop("annotations") == {"b": "c"}
    assert converted == created


def test_webhook_timeout(api: Api, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout covers the head and the body of the webhook's response."""
    monkeypatch.setattr(http_client, "TIMEOUT", 0.2)
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    message = f'failed: Post "{webhook.url}?timeout=0.2s": context deadline exceeded'
    for behave in (raw(lacking=1), lambda *_: webhook.over.wait(20)):
        webhook.behave = behave
        response = api.get(f"{beta}/a")
        assert response.status == 500
        assert response.message.endswith(message)
    assert api.get(f"{path}/a").status == 200


def test_webhook_response_limit(
    api: Api, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response above the size limit is an error, whatever its Content-Length; a smaller one is
    read whole."""
    monkeypatch.setattr(http_client, "MAX_BYTES", 3 << 20)
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    name = "n" * (2 << 20)
    api.post(path, widget(crd, "a", spec={"first": name, "last": "B"}))
    webhook.behave = raw(b" " * (4 << 20), lacking=1)
    response = api.get(f"{beta}/a")
    assert response.status == 500
    assert response.message.endswith("failed: the response is larger than 3145728 bytes")
    webhook.behave = good
    assert api.get(f"{beta}/a").json["spec"] == {"name": f"{name} B"}


def owners(obj: Any) -> dict[str, tuple[str, list[str]]]:
    """A mapping of managers to the version of their entry and the fields of the spec that they
    own."""
    return {
        entry["manager"]: (
            entry["apiVersion"].rpartition("/")[2],
            sorted(entry["fieldsV1"].get("f:spec", {}).keys() - {"."}),
        )
        for entry in obj["metadata"]["managedFields"]
    }


def test_managed_fields_across_versions(api: Api, webhook: Webhook) -> None:
    """An entry of managedFields keeps the version of its writer. Field ownership and conflicts are
    computed in that version, from objects that the webhook converts."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    spec = {"name": "Ada Lovelace", "born": 1815}
    applied = apply(api, f"{beta}/ada", widget(crd, "ada", "v1beta1", spec=spec), "old")
    assert applied.status == 201, applied.body
    assert owners(applied.json) == {"old": ("v1beta1", ["f:born", "f:name"])}
    conflicting = widget(crd, "ada", spec={"last": "Byron"})
    conflict = apply(api, f"{path}/ada", conflicting, "new")
    assert conflict.status == 409
    assert conflict.message == 'Apply failed with 1 conflict: conflict with "old": .spec.name'
    changed = api.patch(f"{path}/ada?fieldManager=patcher", {"spec": {"last": "King"}})
    assert changed.json["spec"] == {"first": "Ada", "last": "King", "born": 1815}
    changed_owners = owners(changed.json)
    assert changed_owners == {"old": ("v1beta1", ["f:born"]), "patcher": ("v1", ["f:last"])}
    smaller = widget(crd, "ada", "v1beta1", spec={"name": "Ada King"})
    reapplied = apply(api, f"{beta}/ada", smaller, "old", "&force=true")
    assert reapplied.json["spec"] == {"name": "Ada King"}


def test_managed_fields_while_webhook_fails(api: Api, webhook: Webhook) -> None:
    """Writes in the storage version work, and ownership of fields with the same names is
    tracked."""
    crd = people(webhook)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    apply(api, f"{beta}/a", widget(crd, "a", "v1beta1", spec={"name": "A B", "born": 1}), "old")
    webhook.behave = raw(status=500)
    changed = api.patch(f"{path}/a?fieldManager=patcher", {"spec": {"born": 2}})
    assert changed.status == 200, changed.body
    assert owners(changed.json) == {
        "old": ("v1beta1", ["f:name"]),
        "patcher": ("v1", ["f:born"]),
    }


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}}


def test_webhook_service(api: Api, webhook: Webhook) -> None:
    """The webhook is called at the address of the service, and its certificate must be valid for
    <service>.<namespace>.svc."""
    service = {"name": "hook", "namespace": "default", "port": webhook.port, "path": "/convert"}
    crd = people(webhook, url=None, service=service)
    path, beta = establish(api, crd), path_of(crd, "v1beta1")
    api.post(path, widget(crd, "a", spec={"first": "A", "last": "B"}))
    address = f"hook.default.svc:{webhook.port}"
    response = api.get(beta)
    message = f'failed: Post "https://{address}/convert?timeout=30s": service "hook" not found'
    assert response.message.endswith(message)
    services = "/api/v1/namespaces/default/services"
    spec = {"type": "ExternalName", "externalName": "localhost"}
    assert api.post(services, {**SERVICE, "spec": spec}).status == 201
    try:
        assert api.get(f"{beta}/a").json["spec"] == {"name": "A B"}
        assert webhook.hosts == {(address, "/convert?timeout=30s")}
        second_crd = people(webhook, url=None, service={**service, "name": "other"})
        api.post(services, {**SERVICE, "metadata": {"name": "other"}, "spec": spec})
        api.post(
            establish(api, second_crd), widget(second_crd, "a", spec={"first": "A", "last": "B"})
        )
        response = api.get(path_of(second_crd, "v1beta1"))
        assert "tls: failed to verify certificate: " in response.message
    finally:
        api.delete(f"{services}/hook")
        api.delete(f"{services}/other")


PORTS = [{"name": "a", "port": 443}, {"name": "b", "port": 444}]
READY = {"addresses": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}], "ports": [
    {"name": "a", "port": 8443}, {"name": "b", "port": 8444}]}  # fmt: skip
NOT_READY = {"notReadyAddresses": [{"ip": "10.1.0.2"}], "ports": [{"name": "a", "port": 8443}]}


@pytest.mark.parametrize(
    ("spec", "subsets", "port", "addresses"),
    [
        ({"ports": PORTS}, [NOT_READY, READY], 443, [("10.1.0.1", 8443), ("fd00::1", 8443)]),
        ({"ports": PORTS}, [READY], 444, [("10.1.0.1", 8444), ("fd00::1", 8444)]),
        ({"ports": PORTS}, [READY], 445, 'no service port 445 found for service "x"'),
        ({"ports": PORTS}, [NOT_READY], 443, 'no endpoints available for service "x"'),
        ({"ports": PORTS}, [], 443, 'no endpoints available for service "x"'),
        ({"ports": [{"port": 443}]}, [READY], 443, 'no endpoints available for service "x"'),
        ({"type": "ExternalName", "externalName": "a.b"}, [], 443, [("a.b", 443)]),
    ],
)
def test_service_addresses(spec: Any, subsets: Any, port: int, addresses: Any) -> None:
    """A service resolves to its ready endpoints and the port with its name."""
    service = {"metadata": {"name": "x"}, "spec": {"type": "ClusterIP", **spec}}
    if isinstance(addresses, list):
        assert client_config.endpoint_addresses(service, {"subsets": subsets}, port) == addresses
        return
    with pytest.raises(http_client.WebhookFailed) as caught:
        client_config.endpoint_addresses(service, {"subsets": subsets}, port)
    assert str(caught.value) == addresses
