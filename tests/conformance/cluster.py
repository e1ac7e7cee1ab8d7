"""A simulated cluster, as the conformance tests see it: objects, written and read over HTTP.

Kubernetes' tests poll until controllers and kubelets have done their work. Here each read waits
until the server is settled, and time passes only when a test says so.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from typing import Any, TypeVar

from tests.testing.http_client import HttpClient

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
FATE = "simulation.kapiserver.dev/"
_CORE = (
    "configmaps endpoints events limitranges namespaces nodes pods podtemplates "
    "replicationcontrollers resourcequotas secrets serviceaccounts services"
)
_GROUPS = {
    "/api/v1": _CORE,
    "/apis/apps/v1": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "/apis/batch/v1": "cronjobs jobs",
    "/apis/coordination.k8s.io/v1": "leases",
    "/apis/node.k8s.io/v1": "runtimeclasses",
    "/apis/policy/v1": "poddisruptionbudgets",
    "/apis/resource.k8s.io/v1": "deviceclasses devicetaintrules resourceclaims "
    "resourceclaimtemplates resourceslices",
    "/apis/scheduling.k8s.io/v1": "priorityclasses",
}
_ROOTS = {name: root for root, names in _GROUPS.items() for name in names.split()}
_CLUSTER_SCOPED = {
    "deviceclasses", "devicetaintrules", "namespaces", "nodes", "priorityclasses",
    "resourceslices", "runtimeclasses",
}  # fmt: skip
Test = TypeVar("Test", bound=Callable[..., object])


def spec(*names: str) -> Callable[[Test], Test]:
    """Name the conformance tests that a test redoes, as in `specs.yaml`."""

    def mark(test: Test) -> Test:
        test.specs = names  # type: ignore[attr-defined]
        return test

    return mark


class Cluster:
    """Requests to a simulated cluster. Each fails the test unless the server responds with a
    success, or with `status`."""

    def __init__(self, server: Any, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self.client = HttpClient(server)

    def path(
        self, resource: str, name: str = "", sub: str = "", *, everywhere: bool = False
    ) -> str:
        root = _ROOTS[resource]
        if not (everywhere or resource in _CLUSTER_SCOPED):
            root += f"/namespaces/{self.namespace}"
        return "/".join(filter(None, (root, resource, name, sub)))

    def request(
        self, method: str, path: str, body: Any = None, *, status: int = 0, type: str = ""
    ) -> Any:
        code, tree = self.client(method, path, body, type=type or "application/json")
        expected = code == status if status else code < 300
        assert expected, (method, path, code, tree)
        return tree

    def create(self, resource: str, obj: Any, name: str = "", sub: str = "", **options: Any) -> Any:
        return self.request("POST", self.path(resource, name, sub), obj, **options)

    def get(self, resource: str, name: str, sub: str = "", **options: Any) -> Any:
        self.server.settle()
        return self.request("GET", self.path(resource, name, sub), **options)

    def list(self, resource: str, selector: str = "", *, everywhere: bool = False) -> list[Any]:
        self.server.settle()
        path = self.path(resource, everywhere=everywhere)
        return self.request("GET", f"{path}?labelSelector={selector}")["items"]  # type: ignore

    def update(self, resource: str, obj: Any, sub: str = "", **options: Any) -> Any:
        return self.request("PUT", self.path(resource, name_of(obj), sub), obj, **options)

    def change(
        self, resource: str, name: str, change: Callable[[Any], object], sub: str = ""
    ) -> Any:
        """Get an object, change it and update it, as RetryOnConflict does."""
        obj = self.get(resource, name)
        change(obj)
        return self.update(resource, obj, sub)

    def patch(
        self, resource: str, name: str, patch: Any, sub: str = "", type: str = MERGE, **options: Any
    ) -> Any:
        path = self.path(resource, name, sub)
        return self.request("PATCH", path, patch, type=type, **options)

    def delete(self, resource: str, name: str, **options: Any) -> None:
        self.request("DELETE", self.path(resource, name), options or None)

    def delete_all(self, resource: str, selector: str = "") -> None:
        self.request("DELETE", f"{self.path(resource)}?labelSelector={selector}")

    def advance(self, duration: str) -> None:
        self.server.clock.advance(duration)

    def names(self, resource: str, selector: str = "") -> list[str]:
        return sorted(name_of(each) for each in self.list(resource, selector))

    def pods(self, selector: str = "") -> list[Any]:
        """The pods that are not being deleted."""
        pods = self.list("pods", selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def changes(
        self, resource: str, version: str, selector: str = ""
    ) -> builtins.list[tuple[str, Any]]:
        """Return the types and the objects of the events since a version, until an object is
        deleted."""
        self.server.settle()
        path = f"{self.path(resource)}?watch=true&resourceVersion={version}"
        changes = []
        with self.client.watch(f"{path}&labelSelector={selector}") as stream:
            for line in stream:
                event = json.loads(line)
                changes.append((event["type"], event["object"]))
                if event["type"] == "DELETED":
                    return changes
        raise AssertionError(changes)

    def watch(self, resource: str, version: str, selector: str = "") -> builtins.list[str]:
        """Return the types of the events since a version, until an object is deleted."""
        return [kind for kind, _ in self.changes(resource, version, selector)]

    def events(self, reason: str) -> list[str]:
        """The messages of the events with a reason."""
        return [each["message"] for each in self.list("events") if each["reason"] == reason]


# Objects.


def name_of(obj: Any) -> str:
    return str(obj["metadata"]["name"])


def meta(name: str, labels: Any = None, **fields: Any) -> Any:
    return {"metadata": {"name": name} | ({"labels": labels} if labels else {}) | fields}


def template(labels: Any = None, annotations: Any = None, image: str = "httpd", **spec: Any) -> Any:
    """A pod template; `annotations` are the fate of its containers."""
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    if annotations:
        metadata["annotations"] = {f"{FATE}{key}": value for key, value in annotations.items()}
    containers = [{"name": "app", "image": image}]
    return {"metadata": metadata, "spec": {"containers": containers} | spec}


def pod(name: str, labels: Any = None, annotations: Any = None, **spec: Any) -> Any:
    found = template(labels, annotations, **spec)
    found["metadata"]["name"] = name
    return found


def workload(name: str, replicas: int = 1, labels: Any = None, **spec: Any) -> Any:
    """A Deployment, ReplicaSet or StatefulSet."""
    labels = labels or {"app": name}
    of_pod = {key: spec.pop(key) for key in ("annotations", "image") if key in spec}
    fields = {"replicas": replicas, "selector": {"matchLabels": labels}}
    return meta(name, labels) | {"spec": fields | {"template": template(labels, **of_pod)} | spec}


def is_ready(pod: Any) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def condition(obj: Any, type_: str) -> Any:
    for each in obj.get("status", {}).get("conditions", ()):
        if each["type"] == type_:
            return each
    return {}


def images(pods: list[Any]) -> set[str]:
    return {each["spec"]["containers"][0]["image"] for each in pods}


def owner_of(obj: Any) -> str:
    for each in obj["metadata"].get("ownerReferences", ()):
        if each.get("controller"):
            return str(each["name"])
    return ""
