"""Tokens of accounts: how long they live, and the volume with one that nearly every pod has, beside
the cluster's CA and its namespace.

Here because admission makes it and validation need not look at it. Mirrors TokenVolumeSource of
plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

TOKEN_SECONDS = 3607
"""Tells kubelets' tokens from those that somebody asked to be good for an hour."""
_LEAST, _MOST = 600, 1 << 32
ROOT_CA = "kube-root-ca.crt"


def token_lifetime(seconds: int, path: Path) -> Iterator[FieldError]:
    """The rule for how long a token is asked to be good."""
    if seconds < _LEAST:
        yield invalid(path, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST:
        yield invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")


def token_projection() -> Tree:
    """A ProjectedVolumeSource in canonical form, the caller's own."""
    reference = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": reference}]}},
        ],
        "defaultMode": 0o644,
    }


TOKEN_PROJECTION = token_projection()
"""To compare with; never changed."""
