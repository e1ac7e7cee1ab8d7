"""The checks of a server from outside, each by a real fault of a real server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from kapiserver.doctor import server_health
from kapiserver.doctor.checks import SERVER_CHECKS
from kapiserver.doctor.finding import ERROR, INFO, WARNING
from kapiserver.doctor.remote_server import RequestRefused
from kapiserver.testing.server import TestServer
from tests.apiserver.admission.hookkit import rule
from tests.doctor.examined import problems, server_of, write_certificate
from tests.storage.etcd_server import free_port

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    """A server; tests delete what they create."""
    with TestServer(runtime_config={"api/beta": True}, emulated_version="1.31") as running:
        yield running


@pytest.fixture
def api(server: TestServer) -> Iterator[httpx.Client]:
    """A client of an administrator, whose objects are deleted at the end."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, verify=server.ca_context, headers=headers) as client:
        yield client


def _create(api: httpx.Client, path: str, body: Any) -> Any:
    response = api.post(path, json=body)
    assert response.status_code == 201, response.text
    return response.json()


def test_healthy_server(server: TestServer) -> None:
    """A new server has no errors and no warnings."""
    examined = server_of(server.kubeconfig)
    for check in SERVER_CHECKS:
        assert [each for each in check.run(examined) if each.severity != INFO] == []
    (problem,) = problems("version", examined)
    assert problem.message.startswith("serves Kubernetes v1.31.")


def test_health() -> None:
    """A server that drains is not ready."""
    with TestServer() as running:
        running.call(running.running.cluster.server.health.drain)
        (problem,) = problems("health", server_of(running.kubeconfig))
        assert (problem.severity, problem.message) == (ERROR, "the server is not ready: shutdown")


@pytest.mark.parametrize(
    ("days", "severity"), [(0, None), (350, WARNING), (366, ERROR), (-1, ERROR)]
)
def test_certificates(server: TestServer, days: int, severity: str | None) -> None:
    """The certificate that the server shows, and the one in the kubeconfig, live a year."""
    examined = server_of(server.kubeconfig, days=days)
    for name in ("served-certificate", "client-certificate"):
        assert {each.severity for each in problems(name, examined)} == (
            {severity} if severity else set()
        )


@pytest.mark.parametrize(
    ("seconds", "severity", "text"),
    [(30, WARNING, "behind"), (-30, WARNING, "ahead of"), (3600, ERROR, "behind")],
)
def test_clock_skew(server: TestServer, seconds: float, severity: str, text: str) -> None:
    """Clocks that differ are a warning, and an error from a minute on."""
    examined = server_of(server.kubeconfig, days=timedelta(seconds=seconds) / timedelta(days=1))
    (problem,) = problems("clock-skew", examined)
    assert problem.severity == severity
    assert f"seconds {text}" in problem.message


def test_anonymous_administrator(server: TestServer, api: httpx.Client) -> None:
    """A binding that makes everybody an administrator is an error."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": role["apiGroup"], "kind": "User", "name": "system:anonymous"}
    body = {"metadata": {"name": "open"}, "roleRef": role, "subjects": [subject]}
    _create(api, bindings, body)
    (problem,) = problems("anonymous-rights", server_of(server.kubeconfig))
    assert problem.remedy == "kubectl delete clusterrolebinding open"
    api.delete(f"{bindings}/open")


def _webhook(client_config: Any, **fields: Any) -> Any:
    webhook = {
        "name": "w.example.com",
        "clientConfig": client_config,
        "rules": [rule("leases")],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    return {"metadata": {"name": "w"}, "webhooks": [webhook]}


@pytest.mark.parametrize(("policy", "severity"), [("Fail", ERROR), ("Ignore", WARNING)])
def test_silent_webhook(server: TestServer, api: httpx.Client, policy: str, severity: str) -> None:
    """A webhook whose URL does not answer is found, and so are the requests that it failed."""
    url = f"https://127.0.0.1:{free_port()}/"
    path = f"{ADMISSION}/validatingwebhookconfigurations"
    body = _webhook({"url": url}, failurePolicy=policy, timeoutSeconds=1)
    _create(api, path, body)
    (problem,) = problems("webhooks", server_of(server.kubeconfig))
    assert problem.severity == severity
    assert problem.about == "webhook w.example.com of ValidatingWebhookConfiguration w"
    assert "Connection refused" in problem.message
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    status = api.post(leases, json={"metadata": {"generateName": "l"}}).status_code
    assert status == (500 if policy == "Fail" else 201)
    failures = problems("webhook-failures", server_of(server.kubeconfig))
    text = "have failed" if policy == "Fail" else "have passed without it"
    assert any(text in problem.message for problem in failures)
    api.delete(f"{path}/w")


def test_webhooks_of_services(server: TestServer, api: httpx.Client) -> None:
    """A webhook whose Service is missing, or has no endpoint, is found."""
    path = f"{ADMISSION}/mutatingwebhookconfigurations"
    service = {"namespace": "default", "name": "hook", "path": "/mutate"}
    _create(api, path, _webhook({"service": service}))
    (problem,) = problems("webhooks", server_of(server.kubeconfig))
    assert problem.message.startswith("there is no Service default/hook; ")
    services = "/api/v1/namespaces/default/services"
    ports = [{"port": 443, "name": "https"}]
    _create(api, services, {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
    (problem,) = problems("webhooks", server_of(server.kubeconfig))
    assert problem.message.startswith("Service default/hook does not answer: ")
    api.delete(f"{services}/hook")
    api.delete(f"{path}/w")


def _wait_until_down(api: httpx.Client, path: str) -> None:
    """Wait until the server has tried an APIService."""
    while not (api.get(path).json().get("status") or {}).get("conditions"):
        pass


def test_down_api_service(server: TestServer, api: httpx.Client) -> None:
    """An APIService that is not available is an error."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {
        "group": "ext.example.com", "version": "v1", "groupPriorityMinimum": 10,
        "versionPriority": 10, "service": {"namespace": "default", "name": "missing"},
        "insecureSkipTLSVerify": True,
    }  # fmt: skip
    _create(api, path, {"metadata": {"name": "v1.ext.example.com"}, "spec": spec})
    _wait_until_down(api, f"{path}/v1.ext.example.com")
    (problem,) = problems("api-services", server_of(server.kubeconfig))
    assert problem.about == "APIService v1.ext.example.com"
    assert "ServiceNotFound" in problem.message
    api.delete(f"{path}/v1.ext.example.com")


def _definition(name: str = "widgets", **spec: Any) -> Any:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    names = {"plural": name, "singular": name[:-1], "kind": name[:-1].title()}
    group = "doctor.example.com"
    return {
        "metadata": {"name": f"{name}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": versions}
        | spec,
    }


def test_definitions(server: TestServer, api: httpx.Client) -> None:
    """A definition whose names are taken is an error; old stored versions are named."""
    _create(api, DEFINITIONS, _definition())
    names = {"plural": "gadgets", "singular": "widget", "kind": "Gadget"}
    _create(api, DEFINITIONS, _definition("gadgets", names=names))
    path = f"{DEFINITIONS}/gadgets.doctor.example.com"
    while not (api.get(path).json().get("status") or {}).get("conditions"):
        pass
    (problem,) = problems("definitions", server_of(server.kubeconfig))
    assert problem.severity == ERROR
    assert problem.message.startswith("NamesAccepted=False: ")
    api.delete(path)
    widgets = f"{DEFINITIONS}/widgets.doctor.example.com"
    status = {"status": {"storedVersions": ["v1", "v0"]}}
    merge = {"Content-Type": "application/merge-patch+json"}
    assert api.patch(f"{widgets}/status", json=status, headers=merge).status_code == 200
    (problem,) = problems("definitions", server_of(server.kubeconfig))
    assert (problem.severity, problem.message) == (INFO, "objects may still be stored in v0")
    api.delete(widgets)


def test_bundles(server: TestServer, api: httpx.Client, tmp_path: Path) -> None:
    """An expired CA of a webhook is an error."""
    bundle = base64.b64encode(write_certificate(tmp_path, last_day=0).read_bytes()).decode()
    path = f"{ADMISSION}/validatingwebhookconfigurations"
    config = {"url": "https://127.0.0.1:1/", "caBundle": bundle}
    _create(api, path, _webhook(config, failurePolicy="Ignore"))
    (problem,) = problems("ca-bundles", server_of(server.kubeconfig))
    assert problem.severity == ERROR
    assert problem.about.startswith("caBundle of webhook w.example.com")
    api.delete(f"{path}/w")


def test_deprecated_versions(server: TestServer, api: httpx.Client) -> None:
    """A deprecated version that a client has requested is a warning with its end."""
    assert api.get("/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas").status_code == 200
    (problem,) = problems("deprecated-versions", server_of(server.kubeconfig))
    assert problem.about == "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3"
    assert problem.message == "clients use this deprecated version, which 1.32 removes"


def test_rejected_requests(api: httpx.Client, server: TestServer) -> None:
    """Requests that got 429 are a warning for their priority level."""
    levels = "/apis/flowcontrol.apiserver.k8s.io/v1"
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    spec["limited"] |= {"nominalConcurrencyShares": 0}
    _create(api, f"{levels}/prioritylevelconfigurations", {"metadata": {"name": "n"}, "spec": spec})
    rules = [
        {
            "subjects": [{"kind": "User", "user": {"name": "rejected"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }
    ]
    schema = {"priorityLevelConfiguration": {"name": "n"}, "matchingPrecedence": 2, "rules": rules}
    _create(api, f"{levels}/flowschemas", {"metadata": {"name": "n"}, "spec": schema})
    token = server.add_token("rejected")
    headers = {"Authorization": f"Bearer {token}"}
    while api.get("/version", headers=headers).status_code != 429:
        pass
    (problem,) = problems("rejected-requests", server_of(server.kubeconfig))
    assert problem.about == "PriorityLevelConfiguration n"
    assert "requests of the FlowSchema n got 429: concurrency-limit" in problem.message


def test_tables(server: TestServer, api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource with many objects is a warning, and so is one that has grown."""
    for number in range(5):
        _create(api, "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"m{number}"}})
    monkeypatch.setattr(server_health, "OBJECTS", 5)
    monkeypatch.setattr(server_health, "GROWN_OBJECTS", 3)
    findings = problems("table-sizes", server_of(server.kubeconfig))
    assert "configmaps" in [problem.about for problem in findings]
    figures = server_health.object_figures(server_of(server.kubeconfig))
    (problem,) = server_health.growth(figures, figures | {"configmaps": 2.0})
    assert problem.about == "configmaps"
    assert list(server_health.growth(figures, figures)) == []


def test_stuck_namespace(server: TestServer, api: httpx.Client) -> None:
    """A namespace whose objects have finalizers is a warning with the reason."""
    _create(api, "/api/v1/namespaces", {"metadata": {"name": "stuck"}})
    path = "/api/v1/namespaces/stuck/configmaps"
    _create(api, path, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    api.delete("/api/v1/namespaces/stuck")
    while not problems("stuck-namespaces", server_of(server.kubeconfig)):
        pass
    (problem,) = problems("stuck-namespaces", server_of(server.kubeconfig))
    assert problem.about == "Namespace stuck"
    assert "example.com/f in 1 resource instances" in problem.message
    merge = {"Content-Type": "application/merge-patch+json"}
    api.patch(f"{path}/a", json={"metadata": {"finalizers": None}}, headers=merge)


def test_user_without_rights(server: TestServer) -> None:
    """What the user may not read raises the server's refusal."""
    token = server.add_token("nobody")
    kubeconfig = server.write_kubeconfig("default", token=token)
    with pytest.raises(RequestRefused, match="is forbidden"):
        problems("api-services", server_of(kubeconfig))
