"""certificates.k8s.io/v1alpha1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.certificates import v1
from kapiserver.api.types import override_field


class ClusterTrustBundle(v1.ClusterTrustBundle):
    spec = override_field(required=False)


class ClusterTrustBundleSpec(v1.ClusterTrustBundleSpec):
    trustBundle = override_field(required=False)
