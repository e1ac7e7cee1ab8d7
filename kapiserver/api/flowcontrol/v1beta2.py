"""flowcontrol.apiserver.k8s.io/v1beta2: the types of v1beta3; the differences are below."""

from __future__ import annotations

from kapiserver.api.flowcontrol import v1, v1beta3
from kapiserver.api.types import field, inherit_types, int32, override_field, remove_field

inherit_types(__name__, v1beta3)


class FlowSchemaStatus(v1.FlowSchemaStatus):
    conditions = override_field(merge=None)


class LimitedPriorityLevelConfiguration(v1.LimitedPriorityLevelConfiguration):
    assuredConcurrencyShares: int32 = field(
        1,
        always=True,
        before="limitResponse",
        doc=(
            "Shares of the server's concurrency limit, in proportion to those of all levels. "
            "Defaults to 30. Called nominalConcurrencyShares in later versions."
        ),
    )
    nominalConcurrencyShares = remove_field()


class PriorityLevelConfigurationStatus(v1.PriorityLevelConfigurationStatus):
    conditions = override_field(merge=None)
