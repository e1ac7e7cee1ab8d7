"""List kinds, made from the kinds that they list.

Knows no kind. Mirrors the `...List` types of k8s.io/api.
"""

from __future__ import annotations

import functools
from typing import Any

from kapiserver.api.meta.v1 import ListMeta
from kapiserver.api.types import Kind, field

LIST_METADATA = (
    "Standard list metadata: the list's resourceVersion and the token for its next page."
)


@functools.cache
def list_type(item: Any) -> type[Kind]:
    """Return the list kind of a kind (PodList for Pod): metadata and items, as in every list."""
    namespace = {
        "__annotations__": {"metadata": ListMeta, "items": list[item]},
        "__module__": item.__module__,
        "__doc__": f"A list of {item.__name__} objects.",
        "metadata": field(1, doc=LIST_METADATA),
        "items": field(
            2, always=True, required=True, doc=f"The {item.__name__} objects of the list."
        ),
    }
    return type(f"{item.__name__}List", (Kind,), namespace)
