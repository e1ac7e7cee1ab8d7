"""A store that measures the duration of its operations, for metrics and spans.

Knows no metric's name. Mirrors storage/etcd3/metrics of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

from kapiserver.spans import add_span, is_sampled, span
from kapiserver.storage.errors import Conflict, KeyExists, StorageError
from kapiserver.storage.kv.contract import KV, GetResult, RangeResult, Revision
from kapiserver.storage.wrappers.wrapped_store import WrappedStore

Observe: TypeAlias = Callable[[str, str, float, bool], None]
"""Takes an operation (one of OPERATIONS), the key or prefix without the root, seconds, and whether
the operation has failed. A conflict is an answer, and no failure."""
OPERATIONS = ("get", "list", "create", "update", "delete")
_ATTRIBUTES = {operation: {"operation": operation} for operation in OPERATIONS}
Result = TypeVar("Result")


class MeteredStore(WrappedStore):
    """Passes every call on to another store, in a span, and reports its duration. `close` closes
    the other store.

    root    prefix of the keys of objects
    """

    def __init__(self, kv: KV, observe: Observe, *, root: str) -> None:
        super().__init__(kv)
        self._observe = observe
        self._start = len(root) + 1

    def get(self, key: str, *, revision: Revision | None = None) -> Coroutine[Any, Any, GetResult]:
        return self._timed("get", key, self._kv.get(key, revision=revision))

    def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None
    ) -> Coroutine[Any, Any, RangeResult]:
        call = self._kv.range(prefix, start=start, limit=limit, revision=revision)
        return self._timed("list", prefix, call)

    def create(self, key: str, value: bytes, *, ttl: int = 0) -> Coroutine[Any, Any, Revision]:
        return self._timed("create", key, self._kv.create(key, value, ttl=ttl))

    def update(
        self, key: str, value: bytes, *, expected: Revision, ttl: int = 0
    ) -> Coroutine[Any, Any, Revision]:
        call = self._kv.update(key, value, expected=expected, ttl=ttl)
        return self._timed("update", key, call)

    def delete(self, key: str, *, expected: Revision) -> Coroutine[Any, Any, Revision]:
        return self._timed("delete", key, self._kv.delete(key, expected=expected))

    async def close(self) -> None:
        await self._kv.close()

    async def _timed(self, operation: str, key: str, call: Awaitable[Result]) -> Result:
        started = perf_counter()
        is_exported = is_sampled()
        has_failed = False
        try:
            if is_exported:  # the span is open, so that those of etcd are below it
                with span("etcd", _ATTRIBUTES[operation]):
                    return await call
            return await call
        except StorageError as error:
            has_failed = not isinstance(error, (KeyExists, Conflict))
            raise
        finally:
            ended = perf_counter()
            if not is_exported:
                add_span("etcd", started, ended, _ATTRIBUTES[operation])
            self._observe(operation, key[self._start :], ended - started, has_failed)
