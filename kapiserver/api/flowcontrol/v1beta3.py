"""flowcontrol.apiserver.k8s.io/v1beta3: the types of v1, but for the differences below."""

from __future__ import annotations

from kapiserver.api.flowcontrol import v1
from kapiserver.api.types import field, inherit_types, int32

inherit_types(__name__, v1)


class LimitedPriorityLevelConfiguration(v1.LimitedPriorityLevelConfiguration):
    nominalConcurrencyShares: int32 = field(
        1,
        always=True,
        doc=(
            "Shares of the server's concurrency limit, in proportion to those of all levels. 0 "
            "means the default of 30."
        ),
    )
