"""Kubernetes' conformance tests of ValidatingAdmissionPolicy and MutatingAdmissionPolicy. Each test
does what the conformance tests named in its docstring do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.every_kind import MERGE, Api, events, meta

GROUP = "admissionregistration.k8s.io"
ROOT = f"/apis/{GROUP}/v1"
DEPLOYMENTS = {
    "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
    "resources": ["deployments"],
}  # fmt: skip
_numbers = itertools.count(1)


def workload(name: str, replicas: int) -> Any:
    labels = {"app": "nginx"}
    container = {"name": "nginx", "image": "nginx:latest"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


class Policies:
    """Creates policies that match a namespace by its label, and their bindings."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.created: list[str] = []
        label = {"metadata": {"labels": {namespace: "true"}}}
        api("PATCH", f"/api/v1/namespaces/{namespace}", label, content_type=MERGE)

    @property
    def selector(self) -> Any:
        return {"matchLabels": {self.namespace: "true"}}

    def path(self, resource: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{resource}"

    def create(self, kind: str, *, bound: bool = True, **spec: Any) -> str:
        """Create a policy; `kind` is `validating` or `mutating`. Returns its path."""
        name = f"{self.namespace}-{next(_numbers)}.policy.example.com"
        match = {"namespaceSelector": self.selector, "resourceRules": [DEPLOYMENTS]}
        policy = {"metadata": {"name": name}, "spec": {"matchConstraints": match, **spec}}
        self._post(f"{ROOT}/{kind}admissionpolicies", policy)
        if bound:
            actions = {"validationActions": ["Deny"]} if kind == "validating" else {}
            binding = {
                "policyName": name, "matchResources": {"namespaceSelector": self.selector},
                **actions,
            }  # fmt: skip
            body = {"metadata": {"name": name}, "spec": binding}
            self._post(f"{ROOT}/{kind}admissionpolicybindings", body)
        return f"{ROOT}/{kind}admissionpolicies/{name}"

    def _post(self, path: str, body: Any) -> None:
        self.api("POST", path, body)
        self.created.append(f"{path}/{body['metadata']['name']}")

    def wait(self, path: str, is_done: Callable[[Any], bool]) -> Any:
        """Watch an object until the condition holds."""
        collection, _, name = path.rpartition("/")
        with self.api.watch(f"{collection}?fieldSelector=metadata.name={name}") as stream:
            while True:
                (event,) = events(stream, 1)
                if is_done(event["object"]):
                    return event["object"]


@pytest.fixture
def policies(api: Api, namespace: str) -> Iterator[Policies]:
    policies = Policies(api, namespace)
    yield policies
    for path in policies.created:
        api("DELETE", path)


def test_validate_deployment(api: Api, policies: Policies) -> None:
    """ValidatingAdmissionPolicy should validate against a Deployment."""
    validation = {
        "expression": "object.spec.replicas > 1",
        "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
    }
    policies.create("validating", validations=[validation])
    marker = api("POST", policies.path("deployments"), workload("marker", 1), status=422)
    assert marker["reason"] == "Invalid"
    api("POST", policies.path("deployments"), workload("replicated", 2))
    api("POST", policies.path("replicasets"), workload("non-replicated", 1))


def test_type_checking(api: Api, policies: Policies) -> None:
    """ValidatingAdmissionPolicy should type check validation expressions."""

    def checked(*validations: Any) -> list[Any]:
        path = policies.create("validating", bound=False, validations=list(validations))
        policy = policies.wait(path, lambda each: "typeChecking" in (each.get("status") or {}))
        warnings: list[Any] = policy["status"]["typeChecking"].get("expressionWarnings") or []
        return warnings

    assert checked({"expression": "object.spec.replicas > 1"}) == []
    first, second = checked(
        {
            "expression": "object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        }
    )
    assert first["fieldRef"] == "spec.validations[0].expression"
    overload = "found no matching overload for"
    assert f"{overload} '_>_' applied to '(int, string)'" in first["warning"]
    assert second["fieldRef"] == "spec.validations[0].messageExpression"
    assert f"{overload} '_+_' applied to '(string, int)'" in second["warning"]


def test_variables(api: Api, policies: Policies) -> None:
    """ValidatingAdmissionPolicy should allow expressions to refer variables."""
    policies.create(
        "validating",
        variables=[
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
        ],
        validations=[
            {"expression": "variables.replicas > 1"}, {"expression": "variables.oddReplicas"},
        ],
    )  # fmt: skip
    path = policies.path("deployments")
    assert api("POST", path, workload("marker", 1), status=422)["reason"] == "Invalid"
    api("POST", path, workload("replicated", 3))
    assert api("POST", path, workload("even", 2), status=422)["reason"] == "Invalid"
    api("POST", policies.path("replicasets"), workload("non-replicated", 1))


def _apply(expression: str) -> Any:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    return {"mutations": [mutation], "reinvocationPolicy": "Never"}


def test_mutate_annotations(api: Api, policies: Policies) -> None:
    """MutatingAdmissionPolicy should mutate a Deployment with annotations."""
    expression = (
        'Object{metadata: Object.metadata{annotations: {"mutated-by": "admission-policy"}}}'
    )
    policies.create("mutating", **_apply(expression))
    created = api("POST", policies.path("deployments"), workload("marker", 1))
    assert created["metadata"]["annotations"]["mutated-by"] == "admission-policy"


def test_mutate_deployment(api: Api, policies: Policies) -> None:
    """MutatingAdmissionPolicy should mutate a Deployment."""
    policies.create("mutating", **_apply("Object{spec: Object.spec{replicas: 1337}}"))
    created = api("POST", policies.path("deployments"), workload("marker", 1))
    assert created["spec"]["replicas"] == 1337


_RULES = {"resourceRules": [{**DEPLOYMENTS, "operations": ["CREATE"]}]}
SPECS = {
    "validatingadmissionpolicies": (
        {
            "matchConstraints": _RULES,
            "validations": [{"expression": "object.spec.replicas <= 100"}],
        },
        {"failurePolicy": "Ignore"},
    ),
    "validatingadmissionpolicybindings": (
        {"policyName": "replicalimit-policy.example.com", "validationActions": ["Deny"]},
        {"validationActions": ["Warn"]},
    ),
    "mutatingadmissionpolicies": (
        {"matchConstraints": _RULES, **_apply("Object{spec: Object.spec{replicas: 100}}")},
        {"reinvocationPolicy": "IfNeeded"},
    ),
    "mutatingadmissionpolicybindings": (
        {"policyName": "replicalimit-policy.example.com"},
        {"policyName": "replicalimit-policy-2.example.com"},
    ),
}


def update_with_retry(api: Api, path: str, spec: Any) -> Any:
    """Update a policy, again after a conflict with the controller of its status."""
    while True:
        current = api("GET", path)
        current["metadata"]["annotations"]["updated"] = "true"
        current["spec"] |= spec
        response = api.request("PUT", path, current)
        if response.status != 409:
            assert response.status == 200, response.body
            return response.tree


@pytest.mark.parametrize("resource", SPECS)
def test_operations(api: Api, resource: str) -> None:
    """ValidatingAdmissionPolicy and MutatingAdmissionPolicy should support API operations of
    policies and of bindings."""
    (group,) = [each for each in api("GET", "/apis")["groups"] if each["name"] == GROUP]
    assert "v1" in [version["version"] for version in group["versions"]]
    assert "v1" in [each["version"] for each in api("GET", f"/apis/{GROUP}")["versions"]]
    assert resource in [each["name"] for each in api("GET", ROOT)["resources"]]
    spec, change = SPECS[resource]
    label = f"example-e2e-label={resource}"
    selected = f"{ROOT}/{resource}?labelSelector={label}"
    template = {
        "metadata": {"generateName": "e2e-example-", "labels": {"example-e2e-label": resource}},
        "spec": spec,
    }
    for _ in range(2):
        api("POST", f"{ROOT}/{resource}", template)
    created = api("POST", f"{ROOT}/{resource}", template)
    path = f"{ROOT}/{resource}/{created['metadata']['name']}"
    assert api("GET", path)["metadata"]["uid"] == created["metadata"]["uid"]
    version = api("GET", selected)["metadata"]["resourceVersion"]
    with api.watch(f"{selected}&resourceVersion={version}") as stream:
        patch = {"metadata": {"annotations": {"patched": "true"}}, "spec": change}
        patched = api("PATCH", path, patch, content_type=MERGE)
        assert patched["metadata"]["annotations"] == {"patched": "true"}
        assert change.items() <= patched["spec"].items()
        updated = update_with_retry(api, path, spec)
        assert updated["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
        while True:
            (event,) = events(stream, 1)
            assert event["type"] == "MODIFIED"
            if (event["object"]["metadata"].get("annotations") or {}).get("patched"):
                break
    api("DELETE", path)
    assert api("GET", path, status=404)["reason"] == "NotFound"
    assert len(api("GET", selected)["items"]) == 2
    api("DELETE", selected)
    assert api("GET", selected)["items"] == []


def test_status(api: Api) -> None:
    """ValidatingAdmissionPolicy should support API operations: its status is a subresource."""
    path = f"{ROOT}/validatingadmissionpolicies"
    spec, _ = SPECS["validatingadmissionpolicies"]
    api("POST", path, {**meta("with-status"), "spec": spec})
    condition = {
        "type": "PatchStatusFailed", "status": "False", "reason": "E2E", "message": "m",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }  # fmt: skip
    status = {"conditions": [condition]}
    patched = api("PATCH", f"{path}/with-status/status", {"status": status}, content_type=MERGE)
    assert patched["status"]["conditions"][0]["reason"] == "E2E"
    assert api("GET", f"{path}/with-status/status")["metadata"]["name"] == "with-status"
    api("DELETE", f"{path}/with-status")
