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
    """The concurrency limit of a level, and what happens beyond it."""

    assuredConcurrencyShares: int32 = field(
        1,
        always=True,
        doc="The level's shares of the server's concurrency limit, compared with those of all "
        "levels. Defaults to 30. Later nominalConcurrencyShares.",
    )
    limitResponse: LimitResponse = field(
        2, required=True, doc="What happens to requests that find no free seat in the level."
    )
    lendablePercent: int32 | None = field(
        3,
        doc="Which percentage of its seats the level lends to others while they are idle; 0 to "
        "100. Defaults to 0.",
    )
    borrowingLimitPercent: int32 | None = field(
        4,
        doc="How many seats the level borrows at most, in percent of its own. No limit if it is "
        "absent.",
    )


class PriorityLevelConfigurationStatus(v1.PriorityLevelConfigurationStatus):
    conditions = override_field(merge=None)
