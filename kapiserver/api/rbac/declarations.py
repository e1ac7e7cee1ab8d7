"""What the types of the rbac group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, needed

_NEEDED = Declared(first=(needed,))

ROLE = Declared(fields={"rules": Declared(items=Declared(fields={"verbs": _NEEDED}))})
BINDING = Declared(
    fields={
        "subjects": Declared(items=Declared(fields={"name": _NEEDED})),
        "roleRef": Declared(fields={"name": _NEEDED}),
    }
)
