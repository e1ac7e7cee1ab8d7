"""What the types of the discovery group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, at_most, immutable, needed, one_of
from kapiserver.api.discovery.validation import ADDRESSES_MAX, TYPES

ENDPOINT_SLICE = Declared(
    fields={
        "addressType": Declared(first=(immutable, needed), rules=(one_of(*TYPES),)),
        "endpoints": Declared(
            items=Declared(fields={"addresses": Declared(first=(at_most(ADDRESSES_MAX), needed))})
        ),
    }
)
