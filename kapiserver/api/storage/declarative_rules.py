"""Declarative validation rules of the storage group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.core.validation.volume_plugins import DRIVER_MAX
from kapiserver.api.declarative_validation import (
    FieldRules,
    immutable,
    max_length,
    required_value,
    text_format,
)

_IMMUTABLE = FieldRules(short_circuit=(immutable,))

STORAGE_CLASS = FieldRules(
    fields={
        "provisioner": FieldRules(short_circuit=(immutable, required_value)),
        "parameters": _IMMUTABLE,
        "reclaimPolicy": _IMMUTABLE,
        "volumeBindingMode": _IMMUTABLE,
    }
)
_ATTACHER = FieldRules(
    short_circuit=(required_value,),
    rules=(text_format(names.caseless_subdomain), max_length(DRIVER_MAX)),
)
VOLUME_ATTACHMENT = FieldRules(
    fields={"spec": FieldRules(short_circuit=(immutable,), fields={"attacher": _ATTACHER})}
)
