"""Kubernetes' conformance tests of AdmissionWebhook. Each test does what the conformance tests that
its docstring names do; the webhook is a server of the test."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply
from tests.e2e.every_kind import MERGE, Api, Tree, meta, pod
from tests.e2e.webhook_program import (
    DECISIONS,
    DELAY_SECONDS,
    GROUP,
    KINDS,
    UNWANTED,
    Webhooks,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpsServer, Path]]:
    credentials = ensure_certificates(Config(), tmp_path_factory.mktemp("hook"))

    def respond(received: Received) -> Reply:
        review = received.json
        path = received.path.partition("?")[0]
        if path == "/slow":
            server.over.wait(DELAY_SECONDS)
        response = {"uid": review["request"]["uid"], **DECISIONS[path](review["request"])}
        return Reply({**review, "request": None, "response": response})

    server = HttpsServer(credentials, respond)
    yield server, credentials.ca
    server.end()


@pytest.fixture
def webhooks(authority: tuple[HttpsServer, Path], api: Api, namespace: str) -> Iterator[Webhooks]:
    webhooks = Webhooks(*authority, api, namespace)
    yield webhooks
    webhooks.end()


def config_map(name: str, **data: str) -> Tree:
    return {**meta(name), "data": data}


def refused(api: Api, method: str, path: str, body: Any, message: str, **options: Any) -> None:
    """Send a request that a webhook denies with this message."""
    response = api.request(method, path, body, **options)
    assert response.status >= 400, response.body
    assert message in response.tree["message"]


def test_discovery(api: Api) -> None:
    """should include webhook resources in discovery documents."""
    groups = api("GET", "/apis")["groups"]
    (group,) = (each for each in groups if each["name"] == "admissionregistration.k8s.io")
    assert "v1" in {version["version"] for version in group["versions"]}
    group = api("GET", "/apis/admissionregistration.k8s.io")
    assert "admissionregistration.k8s.io/v1" in {
        version["groupVersion"] for version in group["versions"]
    }
    names = {resource["name"] for resource in api("GET", GROUP)["resources"]}
    assert {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} <= names


def test_deny_pods_and_config_maps(api: Api, core: str, webhooks: Webhooks) -> None:
    """should be able to deny pod and configmap creation: also an update, by PUT and PATCH, and not
    in a namespace that the selector leaves out."""
    webhooks.register(
        "validating",
        webhooks.webhook("/pods", "pods"),
        webhooks.webhook("/configmaps", "configmaps", ("CREATE", "UPDATE", "DELETE")),
    )
    denied = {**pod("disallowed-pod"), "metadata": {"name": "x", "labels": UNWANTED}}
    refused(api, "POST", f"{core}/pods", denied, "the pod contains unwanted label")
    message = "the configmap contains unwanted key and value"
    path = f"{core}/configmaps"
    refused(api, "POST", path, config_map("disallowed", **UNWANTED), message)
    api("POST", path, config_map("allowed", admit="this"))
    refused(api, "PUT", f"{path}/allowed", config_map("allowed", **UNWANTED), message)
    refused(api, "PATCH", f"{path}/allowed", {"data": UNWANTED}, message, content_type=MERGE)
    other = f"/api/v1/namespaces/{webhooks.namespace}-other"
    api("POST", "/api/v1/namespaces", meta(f"{webhooks.namespace}-other"))
    api("POST", f"{other}/configmaps", config_map("disallowed", **UNWANTED))
    api("DELETE", other)


def test_deny_attach(api: Api, core: str, webhooks: Webhooks) -> None:
    """should be able to deny attaching pod."""
    webhooks.register("validating", webhooks.webhook("/pods/attach", "pods/attach", ("CONNECT",)))
    api("POST", f"{core}/pods", pod("to-be-attached-pod"))
    refused(
        api,
        "POST",
        f"{core}/pods/to-be-attached-pod/attach?stdin=true&stdout=true",
        None,
        "attaching to pod 'to-be-attached-pod' is not allowed",
    )


SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def define(api: Api, *versions: Tree, **labels: str) -> tuple[str, str]:
    """Create a definition; return the group and the path of it."""
    group = f"{uuid.uuid4().hex[:8]}.example.com"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = f"foos.{group}"
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": versions or [version("v1")],
        },
    }
    api("POST", definitions, body)
    with api.watch(f"{definitions}?fieldSelector=metadata.name={name}") as stream:
        while True:
            conditions = json.loads(stream.readline())["object"].get("status", {})
            established = {
                each["type"] for each in conditions.get("conditions") or ()
                if each["status"] == "True"
            }  # fmt: skip
            if "Established" in established:
                return group, f"{definitions}/{name}"


def version(name: str, schema: Tree = SCHEMA, *, storage: bool = True) -> Tree:
    return {
        "name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip


def foo(group: str, name: str, version: str = "v1", **data: str) -> Tree:
    return {"apiVersion": f"{group}/{version}", "kind": "Foo", **meta(name), "data": data}


def test_deny_custom_resources(api: Api, webhooks: Webhooks) -> None:
    """should be able to deny custom resource creation, update and deletion."""
    group, definition = define(api)
    operations = ("CREATE", "UPDATE", "DELETE")
    webhooks.register(
        "validating", webhooks.webhook("/custom-resource", f"{group}:foos", operations)
    )
    path = f"/apis/{group}/v1/namespaces/{webhooks.namespace}/foos"
    message = "the custom resource contains unwanted data"
    refused(api, "POST", path, foo(group, "a", **UNWANTED), message)
    api("POST", path, foo(group, "b"))
    refused(api, "PATCH", f"{path}/b", {"data": UNWANTED}, message, content_type=MERGE)
    # Store an object that may not be deleted, before the webhook is asked again.
    api("DELETE", definition)


def test_deny_deletion_of_custom_resource(api: Api, webhooks: Webhooks) -> None:
    """should be able to deny custom resource creation, update and deletion: the deletion of an
    object with the offending key, until the key is removed."""
    group, definition = define(api)
    path = f"/apis/{group}/v1/namespaces/{webhooks.namespace}/foos"
    api("POST", path, foo(group, "a", **UNWANTED))
    webhooks.register(
        "validating", webhooks.webhook("/custom-resource", f"{group}:foos", ("UPDATE", "DELETE"))
    )
    refused(api, "DELETE", f"{path}/a", None, "the custom resource contains unwanted data")
    patch = {"data": {"webhook-e2e-test": "webhook-allow"}}
    api("PATCH", f"{path}/a", patch, content_type=MERGE)
    api("DELETE", f"{path}/a")
    api("DELETE", definition)


def test_fail_closed(api: Api, core: str, webhooks: Webhooks) -> None:
    """should unconditionally reject operations on fail closed webhook."""
    client = {"service": {"name": "none", "namespace": webhooks.namespace, "path": "/configmaps"}}
    webhooks.register(
        "validating",
        webhooks.webhook("/configmaps", "configmaps", clientConfig=client, failurePolicy="Fail"),
    )
    response = api.request("POST", f"{core}/configmaps", config_map("foo"))
    assert (response.status, response.tree["reason"]) == (500, "InternalError")


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_configurations_are_exempt(api: Api, webhooks: Webhooks, kind: str) -> None:
    """should not be able to mutate or prevent deletion of webhook configuration objects."""
    resource = "admissionregistration.k8s.io:*"
    no_selector = {"namespaceSelector": {}}
    webhooks.register(
        "validating", webhooks.webhook("/always-deny", resource, ("DELETE",), **no_selector)
    )
    webhooks.register("mutating", webhooks.webhook("/add-label", resource, **no_selector))
    ignored = webhooks.webhook("/configmaps", "invalid", failurePolicy="Ignore")
    path = webhooks.register(kind, ignored)
    assert "labels" not in api("GET", path)["metadata"]
    api("DELETE", path)


def test_mutate_config_map(api: Api, core: str, webhooks: Webhooks) -> None:
    """should mutate configmap: two webhooks, the second of which sees the change of the first."""
    first = webhooks.webhook("/mutating-configmaps", "configmaps")
    second = {**first, "name": "second.mutating-configmaps.k8s.io"}
    webhooks.register("mutating", first, second)
    created = api(
        "POST", f"{core}/configmaps", config_map("to-be-mutated", **{"mutation-start": "yes"})
    )
    assert created["data"] == {
        "mutation-start": "yes", "mutation-stage-1": "yes", "mutation-stage-2": "yes",
    }  # fmt: skip


def test_mutate_pod(api: Api, core: str, webhooks: Webhooks) -> None:
    """should mutate pod and apply defaults after mutation."""
    webhooks.register("mutating", webhooks.webhook("/mutating-pods", "pods"))
    created = api("POST", f"{core}/pods", pod("webhook-to-be-mutated"))
    (container,) = created["spec"]["initContainers"]
    assert container["name"] == "webhook-added-init-container"
    assert container["terminationMessagePolicy"] == "File"
    assert container["imagePullPolicy"] == "Always"


def test_deny_definitions(api: Api, webhooks: Webhooks) -> None:
    """should deny crd creation."""
    selector = {"matchLabels": UNWANTED}
    webhooks.register(
        "validating",
        webhooks.webhook(
            "/crd",
            "apiextensions.k8s.io:customresourcedefinitions",
            namespaceSelector={},
            objectSelector=selector,
        ),
    )
    group = "webhook.example.com"
    body = {
        "metadata": {"name": f"foos.{group}", "labels": UNWANTED},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version("v1")],
        },
    }  # fmt: skip
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    refused(api, "POST", path, body, "the crd contains unwanted label")


def test_mutate_custom_resource(api: Api, webhooks: Webhooks) -> None:
    """should mutate custom resource."""
    group, definition = define(api)
    first = webhooks.webhook("/mutating-custom-resource", f"{group}:foos")
    webhooks.register("mutating", first, {**first, "name": "second.mutating-foos.k8s.io"})
    path = f"/apis/{group}/v1/namespaces/{webhooks.namespace}/foos"
    created = api("POST", path, foo(group, "a", **{"mutation-start": "yes"}))
    assert created["data"] == {
        "mutation-start": "yes", "mutation-stage-1": "yes", "mutation-stage-2": "yes",
    }  # fmt: skip
    api("DELETE", definition)


def test_mutate_other_stored_version(api: Api, webhooks: Webhooks) -> None:
    """should mutate custom resource with different stored version: also after the storage version
    has changed."""
    versions = (version("v1"), version("v2", storage=False))
    group, definition = define(api, *versions)
    webhooks.register(
        "mutating",
        webhooks.webhook("/mutating-custom-resource", f"{group}:foos", ("CREATE", "UPDATE")),
    )
    path = f"/apis/{group}/v1/namespaces/{webhooks.namespace}/foos"
    created = api("POST", path, foo(group, "a", **{"mutation-start": "yes"}))
    assert created["data"] == {"mutation-start": "yes", "mutation-stage-1": "yes"}
    changed = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    api("PATCH", definition, changed, content_type="application/json-patch+json")
    patch = {"data": {"dummy": "test"}}
    patched = api("PATCH", f"{path.replace('v1', 'v2', 1)}/a", patch, content_type=MERGE)
    assert patched["apiVersion"] == f"{group}/v2"
    assert patched["data"] == {
        "mutation-start": "yes", "mutation-stage-1": "yes", "mutation-stage-2": "yes",
        "dummy": "test",
    }  # fmt: skip
    api("DELETE", definition)


def test_mutate_with_pruning(api: Api, webhooks: Webhooks) -> None:
    """should mutate custom resource with pruning."""
    known = {name: {"type": "string"} for name in ("mutation-start", "mutation-stage-1")}
    data = {"type": "object", "properties": known}
    group, definition = define(api, version("v1", {"type": "object", "properties": {"data": data}}))
    first = webhooks.webhook("/mutating-custom-resource", f"{group}:foos")
    webhooks.register("mutating", first, {**first, "name": "second.mutating-foos.k8s.io"})
    path = f"/apis/{group}/v1/namespaces/{webhooks.namespace}/foos"
    created = api("POST", path, foo(group, "a", **{"mutation-start": "yes"}))
    assert created["data"] == {"mutation-start": "yes", "mutation-stage-1": "yes"}
    api("DELETE", definition)


def test_timeout(api: Api, core: str, webhooks: Webhooks) -> None:
    """should honor timeout: a shorter one fails the request unless failurePolicy is Ignore; a
    longer one, and the default, do not."""
    path = f"{core}/configmaps"

    def register(**fields: Any) -> str:
        return webhooks.register("validating", webhooks.webhook("/slow", "configmaps", **fields))

    registered = register(timeoutSeconds=1)
    refused(api, "POST", path, config_map("a"), "context deadline exceeded")
    api("DELETE", registered)
    for name, fields in (
        ("b", {"timeoutSeconds": 1, "failurePolicy": "Ignore"}),
        ("c", {"timeoutSeconds": 10}),
        ("d", {}),
    ):
        registered = register(**fields)
        api("POST", path, config_map(name))
        api("DELETE", registered)


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_change_operations(api: Api, core: str, webhooks: Webhooks, kind: str) -> None:
    """patching/updating a validating webhook should work; patching/updating a mutating webhook
    should work."""
    hook = {
        "mutating": webhooks.webhook("/mutating-configmaps", "configmaps"),
        "validating": webhooks.webhook("/configmaps", "configmaps"),
    }[kind]
    path = webhooks.register(kind, hook)

    def is_asked(name: str) -> bool:
        body = config_map(name, **UNWANTED, **{"mutation-start": "yes"})
        response = api.request("POST", f"{core}/configmaps?dryRun=All", body)
        return response.status >= 400 or "mutation-stage-1" in response.tree["data"]

    assert is_asked("a")
    current = api("GET", path)
    current["webhooks"][0]["rules"][0]["operations"] = ["UPDATE"]
    api("PUT", path, current)
    assert not is_asked("b")
    operations = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}]
    api("PATCH", path, operations, content_type="application/json-patch+json")
    assert is_asked("c")


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_list_and_delete(api: Api, core: str, webhooks: Webhooks, kind: str) -> None:
    """listing validating webhooks should work; listing mutating webhooks should work: all of a
    label take effect, and none after their collection is deleted."""
    label = {"e2e-list-test-uuid": uuid.uuid4().hex}
    web_path = {"mutating": "/mutating-configmaps", "validating": "/configmaps"}[kind]
    for index in range(10):
        name = f"number-{index}.k8s.io"
        hook = webhooks.webhook(web_path, "configmaps", name=name)
        webhooks.register(kind, hook, labels=label)
    selector = "labelSelector=" + "=".join(*label.items())
    assert len(api("GET", f"{KINDS[kind]}?{selector}")["items"]) == 10
    body = config_map("a", **UNWANTED, **{"mutation-start": "yes"})
    response = api.request("POST", f"{core}/configmaps?dryRun=All", body)
    if kind == "validating":
        assert "unwanted key and value" in response.tree["message"]
    else:
        assert response.tree["data"]["mutation-stage-2"] == "yes"
    api("DELETE", f"{KINDS[kind]}?{selector}")
    created = api("POST", f"{core}/configmaps", body)
    assert "mutation-stage-1" not in created["data"]


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_match_conditions(api: Api, core: str, webhooks: Webhooks, kind: str) -> None:
    """should be able to create and update validating webhook configurations with match conditions;
    the same for mutating ones; should reject validating and mutating webhook configurations with
    invalid match conditions; should mutate everything except 'skip-me' configmaps."""
    web_path = {"mutating": "/mutating-configmaps", "validating": "/configmaps"}[kind]
    conditions = [{"name": "skip-me", "expression": "object.metadata.name != 'skip-me'"}]
    hook = webhooks.webhook(web_path, "configmaps", matchConditions=conditions)
    path = webhooks.register(kind, hook)
    assert api("GET", path)["webhooks"][0]["matchConditions"] == conditions
    body = config_map("skip-me", **UNWANTED, **{"mutation-start": "yes"})
    created = api("POST", f"{core}/configmaps", body)
    assert "mutation-stage-1" not in created["data"]
    if kind == "validating":
        refused(api, "POST", f"{core}/configmaps", {**body, **meta("other")}, "unwanted key")
    else:
        created = api("POST", f"{core}/configmaps", {**body, **meta("other")})
        assert created["data"]["mutation-stage-1"] == "yes"
    current = api("GET", path)
    current["webhooks"][0]["matchConditions"] = []
    api("PUT", path, current)
    current = api("GET", path)
    current["webhooks"][0]["matchConditions"] = [{"name": "bad", "expression": "... [] bad"}]
    refused(api, "PUT", path, current, "compilation failed")
    refused(
        api,
        "POST",
        KINDS[kind],
        {**meta("invalid"), "webhooks": current["webhooks"]},
        "compilation failed",
    )
