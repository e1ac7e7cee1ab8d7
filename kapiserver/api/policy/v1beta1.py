"""policy/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.policy import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(__name__, v1)


class PodDisruptionBudgetSpec(v1.PodDisruptionBudgetSpec):
    selector = override_field(
        patch=None,
        doc=(
            "Labels of the pods that the budget covers, in its namespace. Unset and empty both "
            "cover no pods; in policy/v1, an empty selector covers all."
        ),
    )
