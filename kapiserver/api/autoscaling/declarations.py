"""What the types of the autoscaling group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, at_least, needed

HORIZONTAL_POD_AUTOSCALER = Declared(
    fields={
        "spec": Declared(
            fields={
                "minReplicas": Declared(pointer=True, rules=(at_least(0),)),
                "maxReplicas": Declared(first=(needed,), rules=(at_least(1),)),
            }
        )
    }
)
