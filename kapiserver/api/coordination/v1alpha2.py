"""coordination.k8s.io/v1alpha2: the lease candidates of v1beta1."""

from __future__ import annotations

from kapiserver.api.coordination import v1beta1
from kapiserver.api.types import inherit_types

inherit_types(
    __name__,
    v1beta1,
    without=(
        "Lease",
        "LeaseSpec",
    ),
)
