"""Which cluster a program uses, and how: its kubeconfig, or the files of the pod that it runs in.

Mirrors GetConfig of controller-runtime and rest.InClusterConfig of client-go.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.kubeconfig import cluster_context, read_cluster

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts the token and the CA of a pod's service account."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class ClusterAccess(Struct, frozen=True, kw_only=True):
    """How to reach a cluster.

    url          the URL of its API server
    ssl_context  its CA, and the user's client certificate if there is one; None for plain HTTP
    headers      returns the Authorization header, if any; reads a token file each time
    """

    url: str
    ssl_context: ssl.SSLContext | None
    headers: Callable[[], Mapping[str, str]]


def cluster_access(path: str | Path = "") -> ClusterAccess:
    """Return the access to the cluster of a kubeconfig; `find_cluster` says which one. Raises
    BadConfiguration."""
    cluster, user, folder = find_cluster(path)
    credentials = ClientCredentials(user, folder)
    is_secure = cluster["server"].startswith("https:")
    return ClusterAccess(
        url=cluster["server"],
        ssl_context=cluster_context(cluster, credentials, folder) if is_secure else None,
        headers=credentials.headers,
    )


def find_cluster(path: str | Path = "") -> tuple[Tree, Tree, Path]:
    """Return the cluster and the user of the current context of a kubeconfig, and its folder. The
    file is that of the path, else the first one of $KUBECONFIG, else there is none within a pod,
    else it is ~/.kube/config. Raises BadConfiguration."""
    path = path or os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    if not path and _is_in_pod():
        return _cluster_of_pod()
    file = Path(path) if path else Path.home() / ".kube" / "config"
    cluster, user = read_cluster(file, purpose="kubeconfig")
    return cluster, user, file.parent


def _is_in_pod() -> bool:
    return _HOST in os.environ and (SERVICE_ACCOUNT / "token").exists()


def _cluster_of_pod() -> tuple[Tree, Tree, Path]:
    host, port = os.environ[_HOST], os.environ.get(_PORT, "443")
    if not (SERVICE_ACCOUNT / "ca.crt").exists():
        raise BadConfiguration(f"the pod has no {SERVICE_ACCOUNT / 'ca.crt'}")
    address = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{address}:{port}", "certificate-authority": "ca.crt"}
    return cluster, {"tokenFile": "token"}, SERVICE_ACCOUNT
