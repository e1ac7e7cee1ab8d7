"""Two nodes with pods, and the server in which they are; for tests of what nodes may do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.app import serve

CONFIG = Config.of(
    secure_port=None,
    insecure_port=0,
    shutdown_timeout=1,
    controllers=("-*",),
    authorization_mode=("Node", "RBAC"),
    enable_admission_plugins=("NodeRestriction",),
    disable_admission_plugins=("ServiceAccount",),
    runtime_config="api/all=true",
)
NAMESPACE = "default"


def node_user(name: str) -> User:
    return User(name=f"system:node:{name}", groups=("system:nodes", "system:authenticated"))


NODE_A, NODE_B = node_user("a"), node_user("b")
VOLUMES = [
    {"name": "v0", "secret": {"secretName": "volume"}},
    {"name": "v1", "configMap": {"name": "volume"}},
    {"name": "v2", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "v3", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    {"name": "v4", "projected": {"sources": [
        {"secret": {"name": "projected"}}, {"configMap": {"name": "projected"}},
        {"serviceAccountToken": {"audience": "vault", "path": "t"}}]}},
    {"name": "v5", "csi": {
        "driver": "inline.example.com", "nodePublishSecretRef": {"name": "inline"}}},
]  # fmt: skip
CONTAINER = {
    "name": "c",
    "image": "i",
    "envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "from"}}],
    "env": [
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "k"}}},
    ],
}


def pod(name: str, node: str, **more: Any) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [
            {"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "init"}}]}
        ],
        "containers": [CONTAINER],
        "volumes": VOLUMES,
        "resourceClaims": [{"name": "r", "resourceClaimName": "device"}],
        **more,
    }
    return {"metadata": {"name": name}, "spec": spec}


def volume(name: str, **source: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": NAMESPACE, "name": "claim"},
            **source,
        },
    }


CSI = {
    "driver": "d.example.com",
    "volumeHandle": "h",
    "nodeStageSecretRef": {"name": "stage", "namespace": "kube-system"},
    "controllerPublishSecretRef": {"name": "controller", "namespace": "kube-system"},
}


class Cluster:
    """Objects of a server, written as the administrator or as a user."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def resource(
        self, name: str, version: str = "v1", *, user: User | None = None, **parts: Any
    ) -> Any:
        client = self.server.client(user or APISERVER, authorize=user is not None)
        return client.resource(version, name, **{"namespace": NAMESPACE, **parts})

    async def create(self, name: str, body: Any, version: str = "v1", **parts: Any) -> Any:
        return await self.resource(name, version, **parts).create(body)

    async def fill(self) -> None:
        """Create two nodes, and a pod on node a with everything that a pod can name."""
        for name in "ab":
            await self.create("nodes", {"metadata": {"name": name}}, namespace="")
        await self.create("serviceaccounts", {"metadata": {"name": "robot"}})
        await self.create("pods", pod("p", "a"))
        await self.create("pods", {"metadata": {"name": "q"}, "spec": {
            "nodeName": "b", "containers": [{"name": "c", "image": "i"}]}})  # fmt: skip
        await self.create("persistentvolumes", volume("pv", csi=CSI), namespace="")


def run(test: Callable[[Cluster], Awaitable[None]], config: Config = CONFIG) -> None:
    """Run a test with a server that has the objects of `Cluster.fill`."""

    async def serve_and_test() -> None:
        async with serve(config) as running:
            cluster = Cluster(running.cluster.server)
            await cluster.fill()
            await test(cluster)

    asyncio.run(serve_and_test())
