"""A pod `web` on a simulating server, and clients that run commands in it."""

from __future__ import annotations

from typing import Any

from kubernetes import client, config, stream

from kapiserver.testing import TestServer

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "app", "image": "nginx"}, {"name": "log", "image": "log"}]},
}


def add_pod(server: TestServer) -> None:
    """Create the pod, and wait until it is ready."""
    server.state.load([POD])
    server.objects.wait_for("pod/web", "condition=Ready")


def core_client(server: TestServer) -> client.CoreV1Api:
    """Return the official Python client."""
    return client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))


def execute(core: client.CoreV1Api, *command: str, container: str = "app") -> Any:
    """Run a command over WebSocket, to its end."""
    running = stream.stream(
        core.connect_get_namespaced_pod_exec, "web", "default", container=container,
        command=list(command), stdin=True, stdout=True, stderr=True, _preload_content=False,
    )  # fmt: skip
    running.run_forever(timeout=60)
    return running
