"""Declarative validation rules of the lifecycle group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarative_validation import (
    FieldRules,
    enum,
    immutable,
    max_items,
    max_length,
    maximum,
    minimum,
    no_decrease,
    no_modify,
    no_unset,
    required_pointer,
    required_value,
    text_format,
    union,
    unique,
)


def _party(name: str) -> list[str]:
    if "/" not in name:
        return ['must be a domain-prefixed key (such as "acme.io/foo")']
    return names.qualified_name(name)


_NAME = text_format(names.dns1123_subdomain)
_METADATA = FieldRules(fields={"name": FieldRules(rules=(_NAME,))})
_PARTY = FieldRules(short_circuit=(required_value,), rules=(text_format(_party),))
_INTENT = FieldRules(short_circuit=(required_value,), rules=(enum("Eviction", "Withdrawn"),))
_POD = FieldRules(
    pointer=True,
    fields={
        "name": FieldRules(short_circuit=(required_value,), rules=(_NAME,)),
        "uid": FieldRules(short_circuit=(required_value,), rules=(text_format(names.uuid),)),
    },
)
_TARGET = FieldRules(short_circuit=(immutable,), rules=(union("pod"),), fields={"pod": _POD})
_SETTLED = FieldRules(short_circuit=(no_modify, no_unset))
_REPORTED = {
    "conditions": FieldRules(short_circuit=(max_items(100),), rules=(unique("type"),)),
    "observedGeneration": FieldRules(
        pointer=True, short_circuit=(no_unset,), rules=(no_decrease, minimum(1))
    ),
}


def _named(maximum: int, **fields: FieldRules) -> FieldRules:
    return FieldRules(
        short_circuit=(max_items(maximum),),
        rules=(unique("name"),),
        items=FieldRules(fields={"name": _PARTY, **fields}),
        keys=("name",),
    )


EVICTION = FieldRules(
    fields={
        "metadata": _METADATA,
        "spec": FieldRules(fields={"target": _TARGET}),
        "status": FieldRules(
            fields={
                **_REPORTED,
                "requesters": _named(100, intent=_INTENT),
                "targetResponders": _named(
                    11,
                    priority=FieldRules(
                        short_circuit=(no_modify, no_unset, required_pointer),
                        rules=(minimum(0), maximum(100_000)),
                        pointer=True,
                    ),
                    state=FieldRules(
                        short_circuit=(required_value,),
                        rules=(enum("Inactive", "Active", "Interrupted", "Canceled", "Completed"),),
                    ),
                ),
                "responders": _named(
                    11,
                    startTime=_SETTLED,
                    completionTime=_SETTLED,
                    message=FieldRules(pointer=True, rules=(max_length(4000),)),
                ),
            }
        ),
    }
)
EVICTION_REQUEST = FieldRules(
    fields={
        "metadata": _METADATA,
        "spec": FieldRules(
            fields={
                "target": _TARGET,
                "requester": FieldRules(
                    short_circuit=(immutable, required_value), rules=(text_format(_party),)
                ),
                "intent": _INTENT,
            }
        ),
        "status": FieldRules(fields=_REPORTED),
    }
)
