"""flowcontrol.apiserver.k8s.io/v1beta3: the types of v1; the differences are below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.flowcontrol import v1
from kapiserver.api.types import field, inherit_types, int32

if TYPE_CHECKING:
    from kapiserver.api.flowcontrol.v1 import (
        ExemptPriorityLevelConfiguration,
        FlowSchemaSpec,
        PriorityLevelConfiguration,
        QueuingConfiguration,
    )

__all__ = (
    "ExemptPriorityLevelConfiguration",
    "FlowSchemaSpec",
    "PriorityLevelConfiguration",
    "QueuingConfiguration",
)

inherit_types(__name__, v1)

PRESERVE_ZERO_SHARES = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""Annotation of a priority level whose zero shares are not to be defaulted."""


class LimitedPriorityLevelConfiguration(v1.LimitedPriorityLevelConfiguration):
    nominalConcurrencyShares: int32 = field(
        1,
        always=True,
        doc=(
            "Shares of the server's concurrency limit, in proportion to those of all levels. 0 "
            "means the default of 30."
        ),
    )
