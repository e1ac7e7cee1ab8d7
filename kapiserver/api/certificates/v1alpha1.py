"""certificates.k8s.io/v1alpha1: requests for certificates, and bundles of trusted ones."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ClusterTrustBundle(Kind):
    """Certificates that clients of a signer trust."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ClusterTrustBundleSpec = field(2, doc="The desired state.")


class ClusterTrustBundleSpec(Type):
    """The certificates, and whose."""

    signerName: str = field(1, doc="Whose certificates these are.")
    trustBundle: str = field(2, always=True, doc="The certificates as PEM.")
