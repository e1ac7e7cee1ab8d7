"""Service account tokens: their expiration, and the volume with a token, the cluster's CA and the
namespace that nearly every pod has.

It is a module of its own because admission creates the volume and validation recognizes it. Mirrors
TokenVolumeSource of plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

TOKEN_SECONDS = 3607
"""The expiration of tokens in volumes that admission creates. The odd number distinguishes them
from tokens for which a client requested one hour."""
_SECONDS_MIN = 600
_SECONDS_MAX = 1 << 32
ROOT_CA = "kube-root-ca.crt"


def validate_token_expiration(seconds: int, path: Path) -> Iterator[FieldError]:
    """Validate the requested expiration of a token."""
    if seconds < _SECONDS_MIN:
        yield invalid(path, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _SECONDS_MAX:
        yield invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")


def token_projection() -> Tree:
    """Return a new ProjectedVolumeSource in canonical form."""
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
"""A projection to compare others with. It never changes."""
