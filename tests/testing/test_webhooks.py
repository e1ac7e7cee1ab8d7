"""Functions of a test as webhooks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kapiserver.testing import KubeClients, TestNamespace, TestServer, Webhooks
from kapiserver.testing.history.diffs import json_patch
from tests.testing.http_client import HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
WIDGETS = "/apis/example.com/{}/widgets"


def _crd(**spec: Any) -> dict[str, Any]:
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {field: {"type": "string"}}}
                    },
                }
            },
        }
        for name, field in (("v1", "host"), ("v2", "hostname"))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
            **spec,
        },
    }


def test_validating(kube_apiserver: TestServer, kube_webhook: Webhooks) -> None:
    """A function admits requests, or denies them with a text; other requests do not reach it."""

    def not_on_fridays(request: Any) -> str | None:
        return "not on Fridays" if request["object"]["metadata"]["name"] == "friday" else None

    hook = kube_webhook.validating(not_on_fridays, resource="secrets")
    client = HttpClient(kube_apiserver)
    status, body = client("POST", SECRETS, {"metadata": {"name": "friday"}})
    assert (status, body["message"]) == (
        403,
        'admission webhook "not-on-fridays.kapiserver.test" denied the request: not on Fridays',
    )
    assert client("POST", SECRETS, {"metadata": {"name": "monday"}})[0] == 201
    assert client("POST", MAPS, {"metadata": {"name": "friday"}})[0] == 201
    assert [call["operation"] for call in hook.calls] == ["CREATE", "CREATE"]


def test_results(kube_apiserver: TestServer, kube_webhook: Webhooks) -> None:
    """A function may be async, return True and False, and return fields of the response."""

    async def review(request: Any) -> Any:
        results = {"yes": True, "no": False, "full": {"warnings": ["look out"]}}
        return results[request["object"]["metadata"]["name"]]

    kube_webhook.validating(review, resource=["configmaps"], operation="create", name="reviews")
    client = HttpClient(kube_apiserver)
    statuses = [
        client("POST", MAPS, {"metadata": {"name": name}})[0] for name in ("yes", "no", "full")
    ]
    assert statuses == [201, 400, 201]


def test_mutating(kube_apiserver: TestServer, kube_webhook: Webhooks) -> None:
    """The changes of a function are those of the stored object."""

    def label(request: Any) -> None:
        request["object"]["metadata"].setdefault("labels", {})["a/b"] = "1"
        del request["object"]["data"]["secret"]

    def annotate(request: Any) -> Any:
        obj = request["object"]
        return {**obj, "metadata": {**obj["metadata"], "annotations": {"seen": "yes"}}}

    kube_webhook.mutating(label, resource="configmaps", operation="CREATE")
    kube_webhook.mutating(annotate, resource="*", failurePolicy="Ignore")
    body = {"metadata": {"name": "m"}, "data": {"secret": "x", "open": "y"}}
    _, stored = HttpClient(kube_apiserver)("POST", MAPS, body)
    assert stored["data"] == {"open": "y"}
    assert stored["metadata"]["labels"] == {"a/b": "1"}
    assert stored["metadata"]["annotations"] == {"seen": "yes"}


def test_function_that_calls_the_server(
    kube_apiserver: TestServer, kube_client: KubeClients, kube_webhook: Webhooks
) -> None:
    """A function may use a synchronous client of the server that waits for it."""
    http = kube_client.httpx()

    def is_new(_: Any) -> bool:
        return bool(http.get(f"{MAPS}/m").status_code == 404)

    kube_webhook.validating(is_new, resource="configmaps")
    assert HttpClient(kube_apiserver)("POST", MAPS, {"metadata": {"name": "m"}})[0] == 201


def test_conversion(
    kube_session: TestNamespace, kube_crds: Callable[..., Any], kube_webhook: Webhooks
) -> None:
    """A function converts objects in both directions; it may change them or return others."""

    def convert(obj: Any, version: str) -> Any:
        if version == "example.com/v2":
            obj["spec"] = {"hostname": obj["spec"]["host"]}
            return None
        return {**obj, "spec": {"host": obj["spec"]["hostname"]}}

    kube_crds(_crd())
    hook = kube_webhook.conversion(convert, "widgets.example.com")
    client = HttpClient(kube_session.server)  # type: ignore[arg-type]
    body = {
        "apiVersion": "example.com/v2",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"hostname": "h"},
    }
    assert client("POST", WIDGETS.format("v2"), body)[0] == 201
    assert client("GET", f"{WIDGETS.format('v1')}/w")[1]["spec"] == {"host": "h"}
    assert client("GET", f"{WIDGETS.format('v2')}/w")[1]["spec"] == {"hostname": "h"}
    assert hook.calls


def test_errors(caplog: pytest.LogCaptureFixture) -> None:
    """An error of a function is logged with its traceback, seen by the client of the API, and
    raised at the end; so is a result that means nothing. A test may take errors that it expects."""
    caplog.set_level(logging.ERROR)

    def broken(request: Any) -> Any:
        if request["object"]["metadata"]["name"] == "odd":
            return 3
        raise ZeroDivisionError("the function is broken")

    def use(server: TestServer) -> None:
        with Webhooks(server) as webhooks:
            webhooks.validating(broken, resource="configmaps")
            status, body = client("POST", MAPS, {"metadata": {"name": "m"}})
            assert status == 500
            assert "ZeroDivisionError: the function is broken" in body["message"]
            assert client("POST", MAPS, {"metadata": {"name": "odd"}})[0] == 500

    with TestServer() as server:
        client = HttpClient(server)
        with pytest.raises(BaseExceptionGroup) as failure:
            use(server)
        assert failure.group_contains(ZeroDivisionError, match="the function is broken")
        assert failure.group_contains(TypeError, match="the webhook broken returned 3")
        assert 'raise ZeroDivisionError("the function is broken")' in caplog.text
        # It was removed, although it failed.
        assert client("POST", MAPS, {"metadata": {"name": "m"}})[0] == 201
        with Webhooks(server) as webhooks:
            hook = webhooks.validating(broken, resource="secrets")
            assert client("POST", SECRETS, {"metadata": {"name": "m"}})[0] == 500
            assert isinstance(hook.errors.pop(), ZeroDivisionError)


def test_object_that_is_not_json(kube_apiserver: TestServer, kube_webhook: Webhooks) -> None:
    """A change that has no JSON is an error of the function, too."""

    def change(request: Any) -> None:
        request["object"]["metadata"]["labels"] = {1: object()}

    hook = kube_webhook.mutating(change, resource="configmaps")
    assert HttpClient(kube_apiserver)("POST", MAPS, {"metadata": {"name": "m"}})[0] == 500
    assert len(hook.errors) == 1
    hook.errors.clear()


def test_conversion_that_fails() -> None:
    """The message of a conversion's error reaches the client. The definition gets its conversion
    back at the end."""

    def broken(_: Any, __: str) -> Any:
        raise ValueError("no such host")

    def use(server: TestServer) -> None:
        with Webhooks(server) as webhooks:
            webhooks.conversion(broken, "widgets.example.com")
            status, answer = client("GET", f"{WIDGETS.format('v2')}/w")
            assert (status, "no such host" in answer["message"]) == (500, True)

    with TestServer() as server:
        server.state.load(_crd())
        client = HttpClient(server)
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        assert client("POST", WIDGETS.format("v1"), body)[0] == 201
        with pytest.raises(ValueError, match="no such host"):
            use(server)
        assert client("GET", f"{WIDGETS.format('v2')}/w")[0] == 200


@pytest.mark.kapiserver(tls=False)
def test_without_tls(kube_apiserver: TestServer, kube_webhook: Webhooks) -> None:
    """A server without TLS calls webhooks with TLS."""
    kube_webhook.validating(lambda _: "no", resource="configmaps")
    assert HttpClient(kube_apiserver)("POST", MAPS, {"metadata": {"name": "m"}})[0] == 403


def test_server_that_the_test_stops(
    kube_apiserver: TestServer, kube_webhook: Webhooks, kube_user: Callable[..., Any]
) -> None:
    """Webhooks and users end without an error when their server has ended."""
    kube_webhook.validating(lambda _: None, resource="configmaps")
    kube_user("alice", roles=["view"])
    kube_apiserver.stop()


def test_names_are_checked(kube_webhook: Webhooks) -> None:
    """A name that no request has is an error."""
    with pytest.raises(ValueError, match="write configmaps"):
        kube_webhook.validating(lambda _: None, resource="configmap")
    with pytest.raises(ValueError, match="a star stands for a whole name"):
        kube_webhook.mutating(lambda _: None, resource=["pods", "config*"])


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2}}, ["replace /a/b", "remove /a/c"]),
        ({}, {"x/y~z": 1}, ["add /x~1y~0z"]),
        ({"l": [1]}, {"l": [1, 2]}, ["replace /l"]),
        (None, None, []),
    ],
)
def test_json_patch(old: Any, new: Any, operations: list[str]) -> None:
    """The operations name what differs."""
    assert [f"{each['op']} {each['path']}" for each in json_patch(old, new)] == operations
