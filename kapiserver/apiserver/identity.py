"""The identity of this server among the servers of a store. Mirrors server/config.go of
k8s.io/apiserver."""

from __future__ import annotations

import base64
import functools
import hashlib
import platform

KUBE_PORT = 6443
"""The port of a kube-apiserver."""
IDENTITY_LABEL = "apiserver.kubernetes.io/identity"
"""The label of the Leases in LEASE_NAMESPACE that say which servers run; their names are those of
the servers, its value is COMPONENT."""
COMPONENT = "kube-apiserver"
LEASE_NAMESPACE = "kube-system"


@functools.cache
def server_id(port: int = KUBE_PORT) -> str:
    """Return the name of the server of this host with that secure port: `apiserver-`, and a hash of
    the host's name, as kube-apiserver has it. A host may have servers on other ports, too."""
    host = platform.node() if port == KUBE_PORT else f"{platform.node()}:{port}"
    parts = (host.encode(), COMPONENT.encode())
    digest = hashlib.sha256(b"".join(len(part).to_bytes(2) + part for part in parts)).digest()
    return f"apiserver-{base64.b32encode(digest[:16]).decode().rstrip('=').lower()}"


@functools.cache
def server_id_hash() -> str:
    """Return the hash of the identity, as kube-apiserver's metrics show it."""
    return f"sha256:{hashlib.sha256(server_id().encode()).hexdigest()}"
