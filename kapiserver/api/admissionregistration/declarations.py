"""What the types of the admissionregistration group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, needed

_NEEDED = Declared(first=(needed,))

VALIDATING_BINDING = Declared(
    fields={"spec": Declared(fields={"policyName": _NEEDED, "validationActions": _NEEDED})}
)
