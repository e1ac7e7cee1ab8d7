"""A key that a server keeps in a store while it runs, with a time to live that it renews."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kapiserver.storage.errors import Conflict, KeyExists
from kapiserver.storage.kv.contract import KV


async def renew_key(kv: KV, key: str, value: Callable[[bytes | None], bytes], *, ttl: int) -> None:
    """Write a key for another `ttl` seconds; `value` returns the new value for the current one, for
    None if the key is absent. Does nothing if the key expires meanwhile: the next call succeeds.
    Raises StorageError."""
    item = (await kv.get(key)).item
    with contextlib.suppress(KeyExists, Conflict):
        if item is None:
            await kv.create(key, value(None), ttl=ttl)
        else:
            await kv.update(key, value(item.value), expected=item.revision, ttl=ttl)
