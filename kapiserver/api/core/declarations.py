"""What the types of the core group declare of their fields."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarations import Declared, at_least, spelled

REPLICATION_CONTROLLER = Declared(
    fields={
        "metadata": Declared(
            fields={"name": Declared(rules=(spelled(names.dns1123_subdomain),))},
        ),
        "spec": Declared(
            fields={
                "replicas": Declared(pointer=True, rules=(at_least(0),)),
                "minReadySeconds": Declared(rules=(at_least(0),)),
            }
        ),
    }
)
