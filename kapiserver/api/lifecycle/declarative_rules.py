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


def _qualified_name_problems(name: str) -> list[str]:
    if "/" not in name:
        return ['must be a domain-prefixed key (such as "acme.io/foo")']
    return names.qualified_name(name)


_NAME = text_format(names.dns1123_subdomain)
_METADATA = FieldRules(fields={"name": FieldRules(rules=(_NAME,))})
_QUALIFIED_NAME = FieldRules(
    short_circuit=(required_value,), rules=(text_format(_qualified_name_problems),)
)
_INTENT = FieldRules(short_circuit=(required_value,), rules=(enum("Eviction", "Withdrawn"),))
_POD = FieldRules(
    pointer=True,
    fields={
        "name": FieldRules(short_circuit=(required_value,), rules=(_NAME,)),
        "uid": FieldRules(short_circuit=(required_value,), rules=(text_format(names.uuid),)),
    },
)
_TARGET = FieldRules(short_circuit=(immutable,), rules=(union("pod"),), fields={"pod": _POD})
_SET_ONCE = FieldRules(short_circuit=(no_modify, no_unset))
_COMMON_STATUS = {
    "conditions": FieldRules(short_circuit=(max_items(100),), rules=(unique("type"),)),
    "observedGeneration": FieldRules(
        pointer=True, short_circuit=(no_unset,), rules=(no_decrease, minimum(1))
    ),
}


def _named_list(maximum: int, **fields: FieldRules) -> FieldRules:
    return FieldRules(
        short_circuit=(max_items(maximum),),
        rules=(unique("name"),),
        items=FieldRules(fields={"name": _QUALIFIED_NAME, **fields}),
        keys=("name",),
    )


EVICTION = FieldRules(
    fields={
        "metadata": _METADATA,
        "spec": FieldRules(fields={"target": _TARGET}),
        "status": FieldRules(
            fields={
                **_COMMON_STATUS,
                "requesters": _named_list(100, intent=_INTENT),
                "targetResponders": _named_list(
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
                "responders": _named_list(
                    11,
                    startTime=_SET_ONCE,
                    completionTime=_SET_ONCE,
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
                    short_circuit=(immutable, required_value),
                    rules=(text_format(_qualified_name_problems),),
                ),
                "intent": _INTENT,
            }
        ),
        "status": FieldRules(fields=_COMMON_STATUS),
    }
)
