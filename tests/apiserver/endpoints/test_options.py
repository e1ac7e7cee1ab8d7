"""Options of every verb: dry run, field validation, indentation and preconditions."""

from typing import Any

import pytest

APPLY = "application/apply-patch+yaml"
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "d"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": TEMPLATE["spec"]}
SCALE = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d"}}
BINDING = {
    "kind": "Binding",
    "apiVersion": "v1",
    "metadata": {"name": "p"},
    "target": {"kind": "Node", "name": "n"},
}
EVICTION = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}}
TOKEN = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}


def _workload(api, namespace: str) -> dict[str, str]:
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    paths = {"apps": apps, "core": core}
    assert api.post(f"{apps}/deployments", DEPLOYMENT).status == 201
    assert api.post(f"{core}/pods", POD).status == 201
    assert api.post(f"{core}/serviceaccounts", {"metadata": {"name": "s"}}).status == 201
    return paths


@pytest.fixture
def workload(api, namespace: str) -> dict[str, str]:
    """A deployment, a pod and a service account; paths of collections by name."""
    return _workload(api, namespace)


@pytest.fixture(scope="session")
def standing(api) -> dict[str, str]:
    """The same in a namespace that all tests of this module share; tests must not change it.

    The server is that of the session, in which xdist may run parts of this module twice."""
    api.post("/api/v1/namespaces", {"metadata": {"name": "options"}})
    with api.watch("/api/v1/namespaces/options/serviceaccounts?watch=1") as stream:
        assert stream.event()["object"]["metadata"]["name"] == "default"  # a controller makes it
    return _workload(api, "options")


def _all_objects(api, paths: dict[str, str]) -> list[bytes]:
    kinds = ("pods", "configmaps", "serviceaccounts", "events")
    items = [api.get(f"{paths['core']}/{kind}").json["items"] for kind in kinds]
    return [*items, api.get(f"{paths['apps']}/deployments").json["items"]]


WRITES: list[tuple[str, str, Any, str, int]] = [
    ("POST", "{core}/configmaps", {"metadata": {"name": "x"}}, "", 201),
    ("PUT", "{apps}/deployments/d", DEPLOYMENT, "", 200),
    ("PATCH", "{apps}/deployments/d", {"spec": {"replicas": 3}}, "merge", 200),
    ("PATCH", "{apps}/deployments/d", {"spec": {"replicas": 3}}, "strategic", 200),
    ("PATCH", "{apps}/deployments/d",
     [{"op": "replace", "path": "/spec/replicas", "value": 3}], "json", 200),
    ("PATCH", "{core}/configmaps/y?fieldManager=m",
     {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "y"}}, APPLY, 201),
    ("PATCH", "{apps}/deployments/d?fieldManager=m&force=true", DEPLOYMENT, APPLY, 200),
    ("PUT", "{apps}/deployments/d/status", DEPLOYMENT | {"status": {"replicas": 1}}, "", 200),
    ("PATCH", "{apps}/deployments/d/status", {"status": {"replicas": 1}}, "merge", 200),
    ("PUT", "{apps}/deployments/d/scale", SCALE | {"spec": {"replicas": 5}}, "", 200),
    ("PATCH", "{apps}/deployments/d/scale", {"spec": {"replicas": 5}}, "merge", 200),
    ("POST", "{core}/pods/p/binding", BINDING, "", 201),
    ("POST", "{core}/bindings", BINDING, "", 201),
    ("POST", "{core}/pods/p/eviction", EVICTION, "", 201),
    ("POST", "{core}/serviceaccounts/s/token", TOKEN, "", 201),
    ("DELETE", "{apps}/deployments/d", None, "", 200),
    ("DELETE", "{core}/pods/p", None, "", 200),
    ("DELETE", "{core}/pods", None, "", 200),
]  # fmt: skip
"""Method, path, body, type of a patch, status."""


@pytest.mark.parametrize(("method", "path", "body", "type", "status"), WRITES)
def test_dry_run(
    api, standing: dict[str, str], method: str, path: str, body: Any, type: str, status: int
) -> None:
    """dryRun=All returns the result and changes nothing, for every verb."""
    objects_before = _all_objects(api, standing)
    path = path.format(**standing)
    path += ("&" if "?" in path else "?") + "dryRun=All"
    response = api.patch(path, body, type) if type else api(method, path, body)
    assert response.status == status, response.body
    assert _all_objects(api, standing) == objects_before


@pytest.mark.parametrize(("method", "path", "body", "type", "status"), WRITES)
def test_no_other_dry_run(
    api, standing: dict[str, str], method: str, path: str, body: Any, type: str, status: int
) -> None:
    """Any dryRun value but All is an error."""
    path = path.format(**standing)
    path += ("&" if "?" in path else "?") + "dryRun=Some"
    response = api.patch(path, body, type) if type else api(method, path, body)
    assert response.status == 422, response.body
    assert 'dryRun: Unsupported value: ["Some"]' in response.message


UNKNOWN = {"what": 1}
VALIDATED: list[tuple[str, str, Any, str]] = [
    ("POST", "{core}/configmaps", {"metadata": {"name": "x"}} | UNKNOWN, ""),
    ("PUT", "{apps}/deployments/d", DEPLOYMENT | UNKNOWN, ""),
    ("PATCH", "{apps}/deployments/d", UNKNOWN, "merge"),
    ("PATCH", "{apps}/deployments/d", UNKNOWN, "strategic"),
    ("PATCH", "{apps}/deployments/d", [{"op": "add", "path": "/what", "value": 1}], "json"),
    ("PUT", "{apps}/deployments/d/status", DEPLOYMENT | UNKNOWN, ""),
    ("PATCH", "{apps}/deployments/d/status", UNKNOWN, "merge"),
    ("PUT", "{apps}/deployments/d/scale", SCALE | UNKNOWN, ""),
    ("PATCH", "{apps}/deployments/d/scale", UNKNOWN, "merge"),
    ("POST", "{core}/serviceaccounts/s/token", TOKEN | UNKNOWN, ""),
    ("POST", "{core}/pods/p/eviction", EVICTION | UNKNOWN, ""),
]  # fmt: skip


@pytest.mark.parametrize("validation", ["", "Ignore", "Warn", "Strict"])
@pytest.mark.parametrize(("method", "path", "body", "type"), VALIDATED)
def test_field_validation(
    api, workload: dict[str, str], method: str, path: str, body: Any, type: str, validation: str
) -> None:
    """An unknown field causes a warning by default, an error under Strict and nothing under Ignore,
    for every write."""
    path = f"{path.format(**workload)}?fieldValidation={validation}"
    response = api.patch(path, body, type) if type else api(method, path, body)
    if validation == "Strict":
        assert response.status == (422 if type else 400), response.body
        assert 'unknown field "what"' in response.message
        return
    assert response.status in (200, 201), response.body
    has_warning = any('unknown field \\"what\\"' in warning for warning in response.warnings)
    assert has_warning == (validation != "Ignore")


@pytest.mark.parametrize("path", ["{core}/pods/p", "{core}/pods", "{core}/pods/none", "/api"])
@pytest.mark.parametrize(
    ("pretty", "agent", "expected"),
    [("", "test", False), ("true", "test", True), ("1", "test", True), ("false", "curl/8", False),
     ("", "curl/8", True), ("0", "test", False)],
)  # fmt: skip
def test_pretty(
    api, standing: dict[str, str], path: str, pretty: str, agent: str, expected: bool
) -> None:
    """`pretty` indents every response, errors too; without it, command line clients such as curl
    get indented JSON."""
    query = f"?pretty={pretty}" if pretty else ""
    response = api.get(path.format(**standing) + query, headers={"User-Agent": agent})
    assert (b'\n  "kind": ' in response.body) == expected


@pytest.mark.parametrize("path", ["{core}/pods/p", "{core}/pods"])
@pytest.mark.parametrize(
    ("name", "value"), [("uid", "0"), ("resourceVersion", "1"), ("uid", ""), ("", "")]
)
def test_preconditions(api, workload: dict[str, str], path: str, name: str, value: str) -> None:
    """A delete with the wrong uid or resourceVersion is a conflict, for an object and for a
    collection."""
    pod = api.get(f"{workload['core']}/pods/p").json
    preconditions = {name: value or pod["metadata"][name]} if name else {}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
    response = api.delete(path.format(**workload), options)
    assert response.status == (409 if value else 200), response.body
    status_after = api.get(f"{workload['core']}/pods/p").status
    assert status_after == (200 if value else 404)
