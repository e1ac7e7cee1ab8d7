"""What the types of the node group declare of their fields."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarations import Declared, immutable, needed, spelled

RUNTIME_CLASS = Declared(
    fields={
        "handler": Declared(first=(immutable, needed), rules=(spelled(names.dns1123_label),)),
    }
)
