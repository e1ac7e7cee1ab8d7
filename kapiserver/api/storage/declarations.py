"""What the types of the storage group declare of their fields."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.core.validation.volume_plugins import DRIVER_MAX
from kapiserver.api.declarations import Declared, characters, immutable, needed, spelled

_FIXED = Declared(first=(immutable,))

STORAGE_CLASS = Declared(
    fields={
        "provisioner": Declared(first=(immutable, needed)),
        "parameters": _FIXED,
        "reclaimPolicy": _FIXED,
        "volumeBindingMode": _FIXED,
    }
)
_ATTACHER = Declared(
    first=(needed,), rules=(spelled(names.caseless_subdomain), characters(DRIVER_MAX))
)
VOLUME_ATTACHMENT = Declared(
    fields={"spec": Declared(first=(immutable,), fields={"attacher": _ATTACHER})}
)
