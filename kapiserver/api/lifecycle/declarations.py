"""What the types of the lifecycle group declare of their fields."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarations import (
    Declared,
    at_least,
    at_most,
    characters,
    immutable,
    needed,
    no_more_than,
    one_member,
    one_of,
    present,
    rising,
    spelled,
    uncleared,
    unique,
    unmodified,
)


def _party(name: str) -> list[str]:
    if "/" not in name:
        return ['must be a domain-prefixed key (such as "acme.io/foo")']
    return names.qualified_name(name)


_NAME = spelled(names.dns1123_subdomain)
_METADATA = Declared(fields={"name": Declared(rules=(_NAME,))})
_PARTY = Declared(first=(needed,), rules=(spelled(_party),))
_INTENT = Declared(first=(needed,), rules=(one_of("Eviction", "Withdrawn"),))
_POD = Declared(
    pointer=True,
    fields={
        "name": Declared(first=(needed,), rules=(_NAME,)),
        "uid": Declared(first=(needed,), rules=(spelled(names.uuid),)),
    },
)
_TARGET = Declared(first=(immutable,), rules=(one_member("pod"),), fields={"pod": _POD})
_SETTLED = Declared(first=(unmodified, uncleared))
_REPORTED = {
    "conditions": Declared(first=(at_most(100),), rules=(unique("type"),)),
    "observedGeneration": Declared(pointer=True, first=(uncleared,), rules=(rising, at_least(1))),
}


def _named(most: int, **fields: Declared) -> Declared:
    return Declared(
        first=(at_most(most),),
        rules=(unique("name"),),
        items=Declared(fields={"name": _PARTY, **fields}),
        keys=("name",),
    )


EVICTION = Declared(
    fields={
        "metadata": _METADATA,
        "spec": Declared(fields={"target": _TARGET}),
        "status": Declared(
            fields={
                **_REPORTED,
                "requesters": _named(100, intent=_INTENT),
                "targetResponders": _named(
                    11,
                    priority=Declared(
                        first=(unmodified, uncleared, present),
                        rules=(at_least(0), no_more_than(100_000)),
                        pointer=True,
                    ),
                    state=Declared(
                        first=(needed,),
                        rules=(
                            one_of("Inactive", "Active", "Interrupted", "Canceled", "Completed"),
                        ),
                    ),
                ),
                "responders": _named(
                    11,
                    startTime=_SETTLED,
                    completionTime=_SETTLED,
                    message=Declared(pointer=True, rules=(characters(4000),)),
                ),
            }
        ),
    }
)
EVICTION_REQUEST = Declared(
    fields={
        "metadata": _METADATA,
        "spec": Declared(
            fields={
                "target": _TARGET,
                "requester": Declared(first=(immutable, needed), rules=(spelled(_party),)),
                "intent": _INTENT,
            }
        ),
        "status": Declared(fields=_REPORTED),
    }
)
