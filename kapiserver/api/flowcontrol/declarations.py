"""What the types of the flowcontrol group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, by_mode, needed, refused

_TYPE = Declared(first=(needed,))
_RESPONSE = Declared(
    rules=(by_mode("type", "queuing", {"Queue": needed, "Reject": refused}),),
    fields={"type": _TYPE},
)
PRIORITY_LEVEL = Declared(
    fields={
        "spec": Declared(
            rules=(
                by_mode("type", "limited", {"Limited": needed, "Exempt": refused}),
                by_mode("type", "exempt", {"Limited": refused}),
            ),
            fields={
                "type": _TYPE,
                "limited": Declared(pointer=True, fields={"limitResponse": _RESPONSE}),
            },
        )
    }
)
