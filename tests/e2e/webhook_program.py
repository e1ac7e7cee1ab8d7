"""The webhook of the conformance tests, and configurations that name it.

Its paths and decisions are those of the webhook in Kubernetes' test image agnhost.
"""

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.apiserver.proxy.https_server import HttpsServer
from tests.e2e.every_kind import Api, Tree

GROUP = "/apis/admissionregistration.k8s.io/v1"
KINDS = {
    "mutating": f"{GROUP}/mutatingwebhookconfigurations",
    "validating": f"{GROUP}/validatingwebhookconfigurations",
}
UNWANTED = {"webhook-e2e-test": "webhook-disallow"}
DELAY_SECONDS = 2

Decide = Callable[[Any], Tree]


def _deny_if(condition: object, message: str) -> Tree:
    return {"allowed": not condition, "status": {"message": message}}


def _patch(*operations: Tree) -> Tree:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, **({"patchType": "JSONPatch", "patch": patch} if operations else {})}


def _object(request: Any) -> Tree:
    obj: Tree = request["object"] or request["oldObject"]
    return obj


def _has_unwanted_data(request: Any) -> bool:
    return UNWANTED.items() <= (_object(request).get("data") or {}).items()


def _next_stage(request: Any) -> Tree:
    data = _object(request).get("data") or {}
    stages = (("mutation-start", "mutation-stage-1"), ("mutation-stage-1", "mutation-stage-2"))
    return _patch(
        *(
            {"op": "add", "path": f"/data/{after}", "value": "yes"}
            for before, after in stages
            if data.get(before) == "yes"
        )
    )


def _add_init_container(request: Any) -> Tree:
    container = {"image": "webhook-added-image", "name": "webhook-added-init-container"}
    return _patch({"op": "add", "path": "/spec/initContainers", "value": [container]})


DECISIONS: dict[str, Decide] = {
    "/always-deny": lambda _: _deny_if(True, "this webhook denies all requests"),
    "/configmaps": lambda request: _deny_if(
        _has_unwanted_data(request), "the configmap contains unwanted key and value"
    ),
    "/crd": lambda request: _deny_if(
        UNWANTED.items() <= (_object(request)["metadata"].get("labels") or {}).items(),
        "the crd contains unwanted label",
    ),
    "/custom-resource": lambda request: _deny_if(
        _has_unwanted_data(request), "the custom resource contains unwanted data"
    ),
    "/mutating-configmaps": _next_stage,
    "/mutating-custom-resource": _next_stage,
    "/mutating-pods": _add_init_container,
    "/pods": lambda request: _deny_if(
        UNWANTED.items() <= (_object(request)["metadata"].get("labels") or {}).items(),
        "the pod contains unwanted label",
    ),
    "/pods/attach": lambda request: _deny_if(
        request["name"] == "to-be-attached-pod",
        "attaching to pod 'to-be-attached-pod' is not allowed",
    ),
    "/slow": lambda _: {"allowed": True},
    "/add-label": lambda _: _patch(
        {"op": "add", "path": "/metadata/labels", "value": {"added-label": "yes"}}
    ),
}
"""The webhook's response to a request, by path."""


class Webhooks:
    """The webhook, and the configurations that a test creates for its namespace."""

    def __init__(self, server: HttpsServer, authority: Path, api: Api, namespace: str) -> None:
        self._server = server
        self._bundle = base64.b64encode(authority.read_bytes()).decode()
        self._api = api
        self.namespace = namespace
        self._paths: list[str] = []

    def webhook(
        self, path: str, resource: str, operations: Any = ("CREATE",), **fields: Any
    ) -> Tree:
        """A webhook for a resource, `pods` or `stable.example.com/foos`."""
        group, _, name = resource.rpartition(":")
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        return {
            "name": f"{path.strip('/').replace('/', '-')}.k8s.io",
            "clientConfig": {"url": f"{self._server.url}{path}", "caBundle": self._bundle},
            "rules": [
                {
                    "operations": list(operations),
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "resources": [name],
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "namespaceSelector": selector,
        } | fields

    def register(self, kind: str, *webhooks: Tree, **metadata: Any) -> str:
        """Create a configuration and return its path."""
        name = f"e2e-{uuid.uuid4().hex[:8]}"
        body = {"metadata": {"name": name, **metadata}, "webhooks": list(webhooks)}
        self._api("POST", KINDS[kind], body)
        self._paths.append(f"{KINDS[kind]}/{name}")
        return self._paths[-1]

    def end(self) -> None:
        for path in self._paths:
            self._api.request("DELETE", path)
