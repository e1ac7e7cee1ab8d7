"""The cluster in whose pod this process runs, by the files that the kubelet gives every pod.

Mirrors InClusterConfig of client-go.
"""

from __future__ import annotations

import os
from pathlib import Path

from kapiserver.api.types import Tree

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the token, the CA and the namespace of a pod's service account."""


def url_in_pod() -> str:
    """Return the URL of the cluster in whose pod this process runs, or ""."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT")
    if not (host and port and (SERVICE_ACCOUNT / "token").exists()):
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def cluster_of_pod() -> tuple[Tree, Tree, Path] | None:
    """Return the cluster and the user as a kubeconfig has them, and the folder of their files; None
    if this process runs in no pod. Without a file with a CA, the CAs of the system are trusted."""
    url = url_in_pod()
    if not url:
        return None
    cluster = {"server": url}
    if (SERVICE_ACCOUNT / "ca.crt").exists():
        cluster["certificate-authority"] = "ca.crt"
    return cluster, {"tokenFile": "token"}, SERVICE_ACCOUNT
