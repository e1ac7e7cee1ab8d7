"""The first request of a use: of one verb, subresource and media type of a resource.

Modules are imported and codecs compiled when they are first needed, which takes 200 ms for the
first Pod. So the first request of a use loads its handler and its strategy in a thread, and then
does all of its work in threads. What it has loaded, the next requests of the use need not load; one
whose object has other fields may compile the codecs of these fields on the event loop. The codecs
of stored objects load with the first object that is read (`storage/cache/offload.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kapiserver.api.lazy import Lazy
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.offload import Offloader, first_use

_READS = ("get", "list", "watch")


@contextlib.asynccontextmanager
async def first_request(
    offloader: Offloader, target: Target, use: tuple[str, str, str], operation: Lazy[Any]
) -> AsyncIterator[None]:
    """Load the operation and the strategy of a request, and run its work in threads until the block
    ends. The use counts as loaded if the request succeeds: an error may come before its work."""
    await offloader.load(operation)
    verb, subresource, _ = use
    if verb not in _READS:
        load_strategy = target.kind_info.strategy
        await offloader.run_in_thread(load_strategy, subresource, limited=False)
    with first_use():
        yield
    target.kind_info.loaded_uses.add(use)
