"""Known differences from kube-apiserver: what the page on fidelity lists, and how a test sees each.

A difference that is gone fails its test; remove its entry then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Client = Any
"""An `httpx.Client` of an administrator."""
DEFAULT = "/api/v1/namespaces/default"
POD = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    kubernetes      what a cluster does
    kapiserver      what this server does
    is_seen         sends requests to a new server and returns whether they show the difference
    """

    kubernetes: str
    kapiserver: str
    is_seen: Callable[[Client], bool]


def _no_replica_set(client: Client) -> bool:
    names = client.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").json()["items"]
    has_role = any(role["metadata"]["name"].endswith(":deployment-controller") for role in names)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": POD["containers"]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default"
    client.post(f"{path}/deployments", json={"metadata": {"name": "web"}, "spec": spec})
    return has_role and client.get(f"{path}/replicasets").json()["items"] == []


def _bound_pods_stay(client: Client) -> bool:
    client.post(f"{DEFAULT}/pods", json={"metadata": {"name": "a"}, "spec": POD})
    client.delete(f"{DEFAULT}/pods/a")
    is_kept = client.get(f"{DEFAULT}/pods/a").json()["metadata"].get("deletionTimestamp")
    client.delete(f"{DEFAULT}/pods/a?gracePeriodSeconds=0")
    return bool(is_kept) and client.get(f"{DEFAULT}/pods/a").status_code == 404


def _tainted_nodes(client: Client) -> bool:
    client.post("/api/v1/nodes", json={"metadata": {"name": "node-1"}})
    taints = client.get("/api/v1/nodes/node-1").json()["spec"]["taints"]
    return [taint["key"] for taint in taints] == ["node.kubernetes.io/not-ready"]


def _unknown_fields_in_apply(client: Client) -> bool:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "unknown": 1}
    path = f"{DEFAULT}/configmaps/a?fieldManager=m"
    return bool(client.patch(path, json=body, headers=APPLY).status_code == 400)


DIFFERENCES = (
    Difference(
        "Controllers make ReplicaSets of Deployments, and pods of ReplicaSets and Jobs.",
        "No controller does; the objects are stored and validated.",
        _no_replica_set,
    ),
    Difference(
        "The kubelet ends a deleted pod, and the pod goes.",
        "A pod with a node stays, with its deletionTimestamp, until it is deleted with a grace "
        "period of 0.",
        _bound_pods_stay,
    ),
    Difference(
        "A controller removes the taint not-ready of a new node.",
        "The taint stays until a client removes it.",
        _tainted_nodes,
    ),
    Difference(
        "Server-side apply of an unknown field is answered with 500.",
        "It is answered with 400.",
        _unknown_fields_in_apply,
    ),
)
