"""Admission webhooks: which requests they are asked about, and what their answers do."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.serving.tls.credentials import Credentials
from tests.apiserver.admission.hookkit import (
    Behave,
    Hook,
    add,
    allow,
    deny,
    hook_credentials,
    patch,
    rule,
)
from tests.apiserver.conftest import Api
from tests.apiserver.customresources.customkit import definition, establish, version, widget

MakeHook = Callable[..., Hook]


credentials = pytest.fixture(scope="module")(hook_credentials)


@pytest.fixture
def make_hook(credentials: Credentials) -> Iterator[MakeHook]:
    """A function that starts hooks, which end with their configurations after the test."""
    hooks: list[Hook] = []

    def make(behave: Behave = allow) -> Hook:
        hooks.append(Hook(credentials, behave))
        return hooks[-1]

    yield make
    for hook in hooks:
        hook.end()


@pytest.fixture
def hook(make_hook: MakeHook) -> Hook:
    return make_hook()


def config_map(name: str = "m", **data: str) -> Any:
    return {"metadata": {"name": name}, "data": data}


def test_review(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook is asked about a create, an update, a patch and a delete, with the objects, the
    options and the user."""
    hook.configure(api, rule("configmaps"), namespace=namespace)
    path = f"{core}/configmaps"
    api.post(f"{path}?fieldManager=me", config_map(a="1"))
    api.put(f"{path}/m", config_map(a="2"))
    api.patch(f"{path}/m", {"data": {"a": "3"}})
    api.delete(f"{path}/m", {"gracePeriodSeconds": 0})
    created, replaced, patched, deleted = hook.requests
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    for request in hook.requests:
        assert (request["resource"], request["requestResource"]) == (resource, resource)
        assert (request["kind"], request["requestKind"]) == (kind, kind)
        assert (request["name"], request["namespace"]) == ("m", namespace)
        assert "subResource" not in request
        assert request["dryRun"] is False
        assert request["userInfo"]["username"] == "system:unsecured"
    assert created["operation"] == "CREATE"
    assert created["oldObject"] is None
    assert created["object"]["data"] == {"a": "1"}
    assert created["object"]["kind"] == "ConfigMap"
    meta_v1 = {"apiVersion": "meta.k8s.io/v1"}
    assert created["options"] == {"kind": "CreateOptions", "fieldManager": "me", **meta_v1}
    for request, before, after in ((replaced, "1", "2"), (patched, "2", "3")):
        assert request["operation"] == "UPDATE"
        assert request["oldObject"]["data"] == {"a": before}
        assert request["object"]["data"] == {"a": after}
        assert request["oldObject"]["metadata"]["uid"]
        assert request["options"] == {"kind": "UpdateOptions", **meta_v1}
    assert deleted["operation"] == "DELETE"
    assert deleted["object"] is None
    assert deleted["oldObject"]["data"] == {"a": "3"}
    assert deleted["options"] == {"kind": "DeleteOptions", "gracePeriodSeconds": 0, **meta_v1}


def test_denied(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """The client gets the Status of a webhook that rejects the request."""
    hook.configure(api, rule("configmaps"), namespace=namespace)
    path = f"{core}/configmaps"
    denied = 'admission webhook "hook.example.com" denied the request'
    for behave, code, message, reason in (
        (deny("no", code=403, reason="Forbidden"), 403, f"{denied}: no", "Forbidden"),
        (deny(reason="Invalid", code=422), 422, f"{denied}: Invalid", "Invalid"),
        (deny(), 400, f"{denied} without explanation", None),
        (deny(code=200, status="Success"), 400, f"{denied} without explanation", None),
        (deny("no", code=1000), 400, f"{denied}: no", None),
    ):
        hook.behave = behave
        response = api.post(path, config_map())
        assert (response.status, response.message) == (code, message)
        assert response.json.get("reason") == reason
        assert response.json["status"] == "Failure"
    assert api.get(f"{path}/m").status == 404


def test_patch(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A mutating webhook changes the object, which is decoded and validated again."""
    hook.configure(api, rule("configmaps"), mutating=True, namespace=namespace)
    hook.behave = patch(add("/data", {"b": "2"}), add("/unknown", 1))
    response = api.post(f"{core}/configmaps", config_map(a="1"))
    assert response.status == 201, response.body
    assert response.json["data"] == {"b": "2"}
    assert "unknown" not in response.json
    hook.behave = patch(add("/data", {"not a key": "2"}))
    assert api.post(f"{core}/configmaps", config_map("n")).status == 422


def test_changed_subresources(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A change of the body of a subresource counts: that of a token, an eviction and a binding."""
    resources = ("serviceaccounts/token", "pods/eviction", "pods/binding")
    hook.configure(api, rule(*resources), mutating=True, namespace=namespace)
    assert api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}}).status == 201
    hook.behave = patch(
        add("/spec/expirationSeconds", 700), add("/spec/audiences", ["hook.example.com"])
    )
    issued = api.post(f"{core}/serviceaccounts/robot/token", {"spec": {}}).json
    assert issued["spec"]["expirationSeconds"] == 700
    payload = issued["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["hook.example.com"], 700)

    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert api.post(f"{core}/pods", pod).status == 201
    path, body = f"{core}/pods/p", {"metadata": {"name": "p"}, "target": {"name": "n"}}
    hook.behave = patch(add("/metadata/name", "other"))
    for subresource, kind in (("binding", "Binding"), ("eviction", "Eviction")):
        refused = api.post(f"{path}/{subresource}", body)
        assert (refused.status, refused.message) == (
            400, f"name in URL does not match name in {kind} object",
        )  # fmt: skip
    hook.behave = patch(add("/target/name", "changed"))
    assert api.post(f"{path}/binding", body).status == 201
    assert api.get(path).json["spec"]["nodeName"] == "changed"
    hook.behave = patch(add("/deleteOptions", {"dryRun": ["All"]}))
    assert api.post(f"{path}/eviction", body).status == 201
    assert "deletionTimestamp" not in api.get(path).json["metadata"]


def test_older_version_of_a_custom_resource(api: Api, hook: Hook) -> None:
    """A webhook for an older version of a custom resource sees all fields of the object, because no
    conversion removes any, and its patch keeps those that the older version does not have."""

    def schema(*fields: str) -> Any:
        texts = {name: {"type": "string"} for name in fields}
        return {"type": "object", "properties": {"spec": {"type": "object", "properties": texts}}}

    old = version("v1beta1", schema("both", "old"), storage=False)
    crd = definition(version("v1", schema("both", "new")), old)
    path = establish(api, crd)
    older = rule("widgets", apiGroups=[crd["spec"]["group"]], apiVersions=["v1beta1"])
    hook.configure(api, older, mutating=True)
    hook.behave = patch(add("/spec/both", "2"), add("/spec/old", "3"), add("/spec/none", "4"))
    created = api.post(path, widget(crd, "w", spec={"both": "1", "new": "kept"}))
    assert created.status == 201, created.body
    (request,) = hook.requests
    assert request["object"]["apiVersion"].endswith("/v1beta1")
    assert request["object"]["spec"] == {"both": "1", "new": "kept"}
    assert created.json["spec"] == {"both": "2", "new": "kept"}


@pytest.mark.parametrize(("is_excluded", "count"), [("true", 0), ("false", 1)])
def test_reviews_of_access(
    make_server: Any, make_hook: MakeHook, is_excluded: str, count: int
) -> None:
    """Webhooks see reviews of access only without the feature gate that excludes them."""
    gates = parse_feature_gates(f"ExcludeAdmissionWebhookVirtualResources={is_excluded}")
    server, hook = make_server(feature_gates=gates), make_hook()
    hook.configure(server.api, rule("*", apiGroups=["authentication.k8s.io"]))
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert server.api.post(reviews, {}).status == 201
    assert [request["resource"]["resource"] for request in hook.requests] == [
        "selfsubjectreviews"
    ] * count


def test_generated_name(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook sees a new object before the server generates its name, and may name it."""
    hook.configure(api, rule("configmaps"), mutating=True, namespace=namespace)
    created = api.post(f"{core}/configmaps", {"metadata": {"generateName": "g-"}}).json
    (request,) = hook.requests
    assert "name" not in request
    system_fields = {"name", "uid", "creationTimestamp", "resourceVersion"}
    assert not system_fields & request["object"]["metadata"].keys()
    assert created["metadata"]["name"].startswith("g-")
    hook.behave = patch(add("/metadata/name", "given"))
    created = api.post(f"{core}/configmaps", {"metadata": {"generateName": "g-"}}).json
    assert created["metadata"]["name"] == "given"


def test_warnings(api: Api, core: str, namespace: str, make_hook: MakeHook) -> None:
    """The warnings of all webhooks reach the client."""
    for text, mutating in (("first", True), ("second", False)):
        answer = {"allowed": True, "warnings": [text]}
        make_hook(lambda _request, answer=answer: answer).configure(
            api, rule("configmaps"), mutating=mutating, namespace=namespace
        )
    response = api.post(f"{core}/configmaps", config_map())
    assert [warning.split('"')[1] for warning in response.warnings] == ["first", "second"]


def test_reinvocation(api: Api, core: str, namespace: str, make_hook: MakeHook) -> None:
    """A webhook with reinvocationPolicy IfNeeded is asked again after a later webhook changed the
    object; the built-in plugins run again, too."""
    first, second, third = make_hook(), make_hook(), make_hook()
    second.behave = patch(add("/data", {"b": "2"}))
    policies = ("IfNeeded", "Never", "IfNeeded")
    for each, name, policy in zip((first, second, third), "abc", policies, strict=True):
        each.configure(
            api,
            rule("configmaps"),
            mutating=True,
            namespace=namespace,
            reinvocationPolicy=policy,
            configuration=f"{namespace}-{name}",
        )
    assert api.post(f"{core}/configmaps", config_map(a="1")).status == 201
    assert [request["object"]["data"] for request in first.requests] == [{"a": "1"}, {"b": "2"}]
    assert len(second.requests) == 1
    assert len(third.requests) == 1


def test_no_reinvocation_without_change(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A patch that changes nothing makes no webhook due again."""
    hook.configure(
        api, rule("configmaps"), mutating=True, namespace=namespace, reinvocationPolicy="IfNeeded"
    )
    hook.behave = patch(add("/data", {"a": "1"}))
    assert api.post(f"{core}/configmaps", config_map(a="1")).status == 201
    assert len(hook.requests) == 1


def test_order(api: Api, core: str, namespace: str, make_hook: MakeHook) -> None:
    """Mutating webhooks are asked in order of the names of their configurations, and in the order
    of a configuration; each sees the changes of those before it."""
    hook = make_hook()
    webhooks = []
    for name in ("z.example.com", "a.example.com"):
        webhook = hook.webhook(rule("configmaps"), name=name)
        webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        webhooks.append(webhook)
    for configuration in ("b", "a"):
        hook.create(api, webhooks, mutating=True, configuration=f"{namespace}-{configuration}")

    def count(request: Any) -> Any:
        number = int(request["object"]["data"]["a"]) + 1
        return patch(add("/data/a", str(number)))(request)

    hook.behave = count
    assert api.post(f"{core}/configmaps", config_map(a="0")).json["data"] == {"a": "4"}
    assert [request["object"]["data"]["a"] for request in hook.requests] == ["0", "1", "2", "3"]


def test_dry_run(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook without side effects is asked about a dry run, which stores nothing."""
    hook.configure(api, rule("configmaps"), namespace=namespace, sideEffects="NoneOnDryRun")
    assert api.post(f"{core}/configmaps?dryRun=All", config_map()).status == 201
    (request,) = hook.requests
    assert request["dryRun"] is True
    assert request["options"]["dryRun"] == ["All"]
    assert api.get(f"{core}/configmaps/m").status == 404


def test_v1beta1(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """A webhook that knows reviews of v1beta1 alone gets them; their uid and patchType are not
    checked."""
    hook.configure(
        api,
        rule("configmaps"),
        mutating=True,
        namespace=namespace,
        admissionReviewVersions=["v0", "v1beta1"],
    )
    hook.behave = patch(add("/data", {"b": "2"}), uid="other", patchType=None)
    created = api.post(f"{core}/configmaps", config_map())
    assert created.json["data"] == {"b": "2"}
    assert [review["apiVersion"] for review in hook.reviews] == ["admission.k8s.io/v1beta1"]


def test_service(api: Api, core: str, namespace: str, credentials: Credentials) -> None:
    """A webhook behind a service is reached at the service's address, with a certificate for the
    name of the service."""
    hook = Hook(credentials)
    path = "/api/v1/namespaces/default"
    spec = {"type": "ExternalName", "externalName": "localhost"}
    assert api.post(f"{path}/services", {"metadata": {"name": "hook"}, "spec": spec}).status == 201
    port = hook.server.port
    reference = {"name": "hook", "namespace": "default", "path": "/admit", "port": port}
    hook.configure(
        api,
        rule("configmaps"),
        namespace=namespace,
        clientConfig={"service": reference, "caBundle": hook.bundle},
    )
    for name in ("a", "b", "c"):
        response = api.post(f"{core}/configmaps", config_map(name))
        assert response.status == 201, response.body
    received = hook.server.received
    assert [(each.path, each.headers["host"]) for each in received] == [
        ("/admit?timeout=10s", f"hook.default.svc:{port}")
    ] * 3
    assert {each.headers["user-agent"] for each in received} == {"kube-apiserver-admission"}
    api.delete(f"{path}/services/hook")
    hook.end()


def test_metrics(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """Calls of webhooks are counted by name, type, operation and code."""
    hook.configure(api, rule("configmaps"), namespace=namespace, name="metrics.example.com")
    api.post(f"{core}/configmaps", config_map())
    hook.behave = deny(code=403)
    api.delete(f"{core}/configmaps/m")
    labels = 'name="metrics.example.com"'
    all_lines = api.get("/metrics").body.decode().splitlines()
    lines = [line for line in all_lines if labels in line]
    assert (
        'apiserver_admission_webhook_request_total{code="200",name="metrics.example.com",'
        'operation="CREATE",rejected="false",type="validating"} 1'
    ) in [_sorted_labels(line) for line in lines]
    assert (
        'apiserver_admission_webhook_rejection_count{error_type="no_error",'
        'name="metrics.example.com",operation="DELETE",rejection_code="403",type="validating"} 1'
    ) in [_sorted_labels(line) for line in lines]
    seconds = "apiserver_admission_webhook_admission_duration_seconds_count"
    assert sum(line.startswith(seconds) for line in lines) == 2
    requests = 'rest_client_requests_total{code="200",method="POST",host="'
    assert any(line.startswith(requests) for line in all_lines)


def _sorted_labels(line: str) -> str:
    name, _, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    return f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}"


def test_invalid_managed_fields(api: Api, core: str, namespace: str, hook: Hook) -> None:
    """managedFields that a webhook made invalid are restored, with a warning."""
    hook.configure(api, rule("configmaps"), mutating=True, namespace=namespace)
    hook.behave = patch(add("/metadata/managedFields/0/operation", "Nothing"))
    response = api.post(f"{core}/configmaps", config_map(a="1"))
    assert response.json["metadata"]["managedFields"][0]["operation"] == "Update"
    assert "managedFields was in an invalid state after admission" in response.warnings[0]


def test_credentials(make_server: Any, make_hook: MakeHook, tmp_path: Path) -> None:
    """The server shows the credentials that WebhookAdmissionConfiguration names for the host."""
    hook = make_hook()
    users = [
        {"name": f"127.0.0.1:{hook.server.port}", "user": {"token": "secret"}},
        {"name": "*", "user": {"token": "other"}},
    ]
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": users}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(tmp_path / "kubeconfig"),
    }
    file = tmp_path / "admission.json"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "AdmissionConfiguration",
                "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": configuration}],
            }
        )
    )
    api = make_server(admission_control_config_file=file).api
    for mutating in (True, False):
        hook.configure(api, rule("configmaps"), mutating=mutating)
    path = "/api/v1/namespaces/default/configmaps"
    assert api.post(path, config_map()).status == 201
    # The mutating plugin has a configuration of its own.
    requests_of_m = [each for each in hook.server.received if each.json["request"]["name"] == "m"]
    assert [each.headers.get("authorization") for each in requests_of_m] == [None, "Bearer secret"]


@pytest.mark.parametrize("level", ["Metadata", "Request"])
def test_audit_annotations(
    make_server: Any, make_hook: MakeHook, tmp_path: Path, level: str
) -> None:
    """The audit event has the annotations of the webhooks, which of them changed the object, and,
    from the level Request on, their patches."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": level}]}
    (tmp_path / "policy").write_text(json.dumps(policy))
    log = tmp_path / "log"
    server = make_server(audit_policy_file=tmp_path / "policy", audit_log_path=str(log))
    operation = add("/data", {"b": "2"})
    hook = make_hook(patch(operation, auditAnnotations={"why": "because", "bad key": "x"}))
    path = hook.configure(server.api, rule("configmaps"), mutating=True, configuration="mine")
    unreachable = {"url": "https://127.0.0.1:1/", "caBundle": hook.bundle}
    make_hook().configure(
        server.api,
        rule("configmaps"),
        name="open.example.com",
        clientConfig=unreachable,
        failurePolicy="Ignore",
    )
    created = server.api.post("/api/v1/namespaces/default/configmaps", config_map())
    assert created.status == 201, created.body
    server.api.delete(path)
    server.end()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (event,) = (
        each
        for each in events
        if each["verb"] == "create"
        and each["stage"] == "ResponseComplete"
        and each["objectRef"]["resource"] == "configmaps"
        and each["user"]["username"] == "system:unsecured"
    )
    annotations = event["annotations"]
    assert annotations["hook.example.com/why"] == "because"
    annotation = {"configuration": "mine", "webhook": "hook.example.com"}
    mutation = json.loads(annotations["mutation.webhook.admission.k8s.io/round_0_index_0"])
    assert mutation == {**annotation, "mutated": True}
    failed = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"
    assert annotations[failed] == "open.example.com"
    patched = annotations.get("patch.webhook.admission.k8s.io/round_0_index_0")
    if level == "Metadata":
        assert patched is None
    else:
        assert json.loads(patched) == {**annotation, "patch": [operation], "patchType": "JSONPatch"}
