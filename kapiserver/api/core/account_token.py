"""The volume that nearly every pod has: a token of its account, the cluster's CA, its namespace.

Here because admission makes it and validation need not look at it. Mirrors TokenVolumeSource of
plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from kapiserver.api.types import Tree

TOKEN_SECONDS = 3607
"""Tells kubelets' tokens from those that somebody asked to be good for an hour."""
ROOT_CA = "kube-root-ca.crt"


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
