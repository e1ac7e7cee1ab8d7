"""Admission policies for tests: each has one binding, which selects the namespace of the test."""

from __future__ import annotations

import itertools
from typing import Any

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = "validatingadmissionpolic", "mutatingadmissionpolic"
_numbers = itertools.count(1)
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def rule(resource: Any, *operations: str) -> Any:
    return {**resource, "operations": list(operations or ("CREATE", "UPDATE"))}


def deployment(name: str, replicas: int = 1, **metadata: Any) -> Any:
    labels = {"app": name}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    }


class Cluster:
    """A server, and a namespace in it that the policies of one test select."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.namespace = f"policies-{next(_numbers)}"
        body = {"metadata": {"name": self.namespace, "labels": {"test": self.namespace}}}
        assert api.post("/api/v1/namespaces", body).status == 201

    @property
    def selector(self) -> Any:
        return {"matchLabels": {"test": self.namespace}}

    def path(self, resource: str, group: str = "") -> str:
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{resource}"

    @property
    def deployments(self) -> str:
        return self.path("deployments", "apps/v1")

    @property
    def config_maps(self) -> str:
        return self.path("configmaps")

    @property
    def pods(self) -> str:
        return self.path("pods")

    def validate(
        self,
        *validations: Any,
        resource: Any = CONFIG_MAPS,
        operations: Any = (),
        actions: Any = ("Deny",),
        binding: Any = None,
        match: Any = None,
        **spec: Any,
    ) -> str:
        """Create a validating policy and its binding. Returns the name of both."""
        name = f"policy-{next(_numbers)}"
        body = {
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [rule(resource, *operations)],
                    **(match or {}),
                },
                "validations": [
                    {"expression": each} if isinstance(each, str) else each for each in validations
                ],
                **spec,
            },
        }
        self.create(f"{GROUP}/{VALIDATING}ies", body)
        self.bind(VALIDATING, name, validationActions=list(actions), **(binding or {}))
        return name

    def mutate(
        self,
        *mutations: str,
        resource: Any = CONFIG_MAPS,
        operations: Any = (),
        binding: Any = None,
        reinvocation: str = "Never",
        match: Any = None,
        **spec: Any,
    ) -> str:
        """Create a mutating policy and its binding; expressions without `JSONPatch` apply
        configurations. Returns the name of both."""
        name = f"policy-{next(_numbers)}"
        body = {
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [rule(resource, *operations)],
                    **(match or {}),
                },
                "mutations": [_mutation(each) for each in mutations],
                "reinvocationPolicy": reinvocation,
                **spec,
            },
        }
        self.create(f"{GROUP}/{MUTATING}ies", body)
        self.bind(MUTATING, name, **(binding or {}))
        return name

    def bind(self, kind: str, policy: str, name: str = "", **spec: Any) -> None:
        """Bind a policy to the namespace of the test."""
        match = {"namespaceSelector": self.selector, **spec.pop("matchResources", {})}
        body = {
            "metadata": {"name": name or policy},
            "spec": {"policyName": policy, "matchResources": match, **spec},
        }
        self.create(f"{GROUP}/{kind}ybindings", body)

    def create(self, path: str, body: Any) -> Any:
        """Create an object that must be valid."""
        response = self.api.post(path, body)
        assert response.status == 201, response.json["message"]
        return response.json

    def config_map(self, name: str = "c", **fields: Any) -> Any:
        """Try to create a ConfigMap. Returns the response."""
        metadata = {"name": name, **fields.pop("metadata", {})}
        return self.api.post(self.config_maps, {"metadata": metadata, **fields})


def _mutation(expression: str) -> Any:
    if "JSONPatch{" not in expression:
        return {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": expression},
        }
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
