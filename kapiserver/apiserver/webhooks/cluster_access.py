"""Which cluster a program uses, and how: its kubeconfig, or the files of the pod that it runs in.

Mirrors GetConfig of controller-runtime.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.in_cluster import cluster_of_pod
from kapiserver.apiserver.webhooks.kubeconfig import cluster_context, read_cluster


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
    in_pod = None if path else cluster_of_pod()
    if in_pod is not None:
        return in_pod
    file = Path(path) if path else Path.home() / ".kube" / "config"
    cluster, user = read_cluster(file, purpose="kubeconfig")
    return cluster, user, file.parent
