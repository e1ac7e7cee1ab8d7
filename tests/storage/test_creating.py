"""How many operations of the store it takes to create an object."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.query import Write
from kapiserver.storage.errors import AlreadyExists
from kapiserver.storage.kv.contract import GetResult, Revision
from kapiserver.storage.wrappers.wrapped_store import WrappedStore
from tests.storage.objectkit import StorageHarness, config_map, key


class _Recorder(WrappedStore):
    """Records the operations on keys."""

    operations: tuple[str, ...] = ()

    async def get(self, key: str, *, revision: Revision | None = None) -> GetResult:
        self.operations += ("get",)
        return await super().get(key, revision=revision)

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        self.operations += ("create",)
        return await super().create(key, value, ttl=ttl)


def operations(*names: str, applies: bool = False, shared: bool = False) -> tuple[str, ...]:
    """Return the operations for the last one of ConfigMaps that are created."""

    async def create() -> tuple[str, ...]:
        kv = await open_store("sqlite::memory:")
        recorder = _Recorder(kv)
        recorder.shared = shared
        harness = StorageHarness(recorder)
        store = harness.of("configmaps")
        try:
            for name in names:
                recorder.operations = ()
                if applies:
                    write = Write(may_create=True)
                    await store.update(key(name), lambda _: config_map("a"), write)
                else:
                    await store.create(config_map(name))
        except AlreadyExists:
            pass
        finally:
            harness.stores.stop()
            await kv.close()
        return recorder.operations

    return asyncio.run(create())


def test_an_object_that_exists_is_not_written() -> None:
    """A look at the store suffices if the watch cache has the object."""
    assert operations("a") == ("create",)
    assert operations("a", "b") == ("create",)
    assert operations("a", "a") == ("get",)


@pytest.mark.parametrize(("shared", "expected"), [(False, ("create",)), (True, ("get", "create"))])
def test_an_applied_object_is_read_if_other_servers_write(
    shared: bool, expected: tuple[str, ...]
) -> None:
    """The watch cache of a store of this process has all objects."""
    assert operations("a", applies=True, shared=shared) == expected
