"""The identity of this server among the servers of a store. Mirrors server/config.go of
k8s.io/apiserver."""

from __future__ import annotations

import base64
import functools
import hashlib
import platform


@functools.cache
def server_id() -> str:
    """Return the name that kube-apiserver gives to a server of this host: `apiserver-`, and a hash
    of the host's name."""
    parts = (platform.node().encode(), b"kube-apiserver")
    digest = hashlib.sha256(b"".join(len(each).to_bytes(2) + each for each in parts)).digest()
    return f"apiserver-{base64.b32encode(digest[:16]).decode().rstrip('=').lower()}"


@functools.cache
def server_id_hash() -> str:
    """Return the hash of the identity, as kube-apiserver's metrics show it."""
    return f"sha256:{hashlib.sha256(server_id().encode()).hexdigest()}"
