"""flowcontrol.apiserver.k8s.io/v1beta2: the types of v1beta3, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.flowcontrol import v1, v1beta3
from kapiserver.api.types import Type, field, inherit_types, int32, override_field

if TYPE_CHECKING:
    from kapiserver.api.flowcontrol.v1 import LimitResponse

inherit_types(__name__, v1beta3)


class FlowSchemaStatus(v1.FlowSchemaStatus):
    conditions = override_field(merge=None)


class LimitedPriorityLevelConfiguration(Type):
    """Seats of a level, lent and borrowed."""

    assuredConcurrencyShares: int32 = field(1, always=True)
    limitResponse: LimitResponse = field(2, required=True)
    lendablePercent: int32 | None = field(3)
    borrowingLimitPercent: int32 | None = field(4)


class PriorityLevelConfigurationStatus(v1.PriorityLevelConfigurationStatus):
    conditions = override_field(merge=None)
