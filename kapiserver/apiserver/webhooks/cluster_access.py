"""Which cluster a program uses, and how: its kubeconfig, or the files of the pod that it runs in.

Mirrors GetConfig of controller-runtime.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.redaction import without_passwords
from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.in_cluster import cluster_of_pod
from kapiserver.apiserver.webhooks.kubeconfig import cluster_context, read_cluster


class ClusterAccess(Struct, frozen=True, kw_only=True):
    """How to reach a cluster.

    url          the URL of its API server
    server_name  the name in the server's certificate; "" means the host of the URL
    proxy        the URL of an HTTP proxy; "" for none
    ssl_context  its CA, and the user's client certificate if there is one; None for plain HTTP
    headers      returns the Authorization header, if any; reads a token file each time
    """

    url: str
    server_name: str
    proxy: str
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
        server_name=cluster.get("tls-server-name") or "",
        proxy=proxy_of(cluster),
        ssl_context=cluster_context(cluster, credentials, folder) if is_secure else None,
        headers=credentials.headers,
    )


def find_cluster(path: str | Path = "") -> tuple[Tree, Tree, Path]:
    """Return the cluster and the user of the current context of a kubeconfig, and its folder. The
    file is that of the path, else the first one of $KUBECONFIG, else there is none within a pod,
    else it is ~/.kube/config. A credential plugin is run, once. Raises BadConfiguration."""
    path = path or os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    in_pod = None if path else cluster_of_pod()
    if in_pod is not None:
        return in_pod
    file = Path(path) if path else Path.home() / ".kube" / "config"
    cluster, user = read_cluster(file, purpose="kubeconfig", plugins=True)
    return cluster, user, file.parent


def proxy_of(cluster: Tree) -> str:
    """Return the URL of the proxy for a cluster: its `proxy-url`, else what the environment says,
    as in ProxyFromEnvironment of Go (HTTPS_PROXY, HTTP_PROXY, NO_PROXY; never for this machine).
    Raises BadConfiguration for another proxy than one of HTTP."""
    url = cluster.get("proxy-url") or ""
    if not url:
        server = urlsplit(cluster["server"])
        host = server.hostname or ""
        if is_on_this_machine(host) or proxy_bypass(host):
            return ""
        url = getproxies_environment().get(server.scheme) or ""
    if url and urlsplit(url).scheme != "http":
        raise BadConfiguration(f"proxy {without_passwords(url)}: want http://HOST:PORT")
    return url


def is_on_this_machine(host: str) -> bool:
    """Report whether a host name or address is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
