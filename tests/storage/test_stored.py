"""What lies in the store, and what is kept of it in memory."""

from __future__ import annotations

import json
from pathlib import Path

from kapiserver.storage.query import ListQuery
from tests.storage.objectkit import (
    CBOR,
    JSON,
    PROTOBUF,
    House,
    config_map,
    key,
    pod,
    run,
)


def test_stored_values_are_those_of_kubernetes(tmp_path: Path) -> None:
    """Keys are kube-apiserver's; values are its protobuf, without a resourceVersion, and are read
    by the next server as they were written by the first."""
    spec = f"sqlite:{tmp_path / 'objects.db'}"

    async def write(house: House) -> dict[str, bytes]:
        await house.of("pods").create(pod("a", labels={"x": "y"}))
        node = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "n"},
            "spec": {},
            "status": {},
        }
        await house.of("nodes").create(node)
        entry = await house.of("pods").get(key("a"))
        for prefix in ("/registry/pods/default/a", "/registry/minions/n"):
            item = (await house.kv.get(prefix)).item
            assert item is not None
            assert item.value.startswith(b"k8s\0")
            assert b"resourceVersion" not in item.value
        return {
            form.media: house.of("pods").documents.object(entry, form)
            for form in (JSON, PROTOBUF, CBOR)
        }

    async def read(house: House) -> dict[str, bytes]:
        entry = await house.of("pods").get(key("a"))
        assert entry.known_tree is None
        assert entry.labels == {"x": "y"}
        assert entry.fields["metadata.name"] == "a"
        assert entry.known_tree is None
        return {
            form.media: house.of("pods").documents.object(entry, form)
            for form in (JSON, PROTOBUF, CBOR)
        }

    written = run(write, spec)
    assert json.loads(written["json"])["metadata"]["resourceVersion"]
    assert run(read, spec) == written


def test_derived_things_stay_within_the_budget() -> None:
    """Trees and encodings of what was not used for long are dropped, and made again."""

    async def test(house: House) -> None:
        store = house.of("configmaps")
        for number in range(50):
            await store.create(config_map(f"c{number:02d}", data={"k": "v" * 500}))
        entries = (await store.list(ListQuery())).entries
        assert sum(entry.known_tree is not None for entry in entries) < 20
        first = store.documents.object(entries[0], JSON)
        for entry in entries:
            entry.encoded(JSON)
        assert store.documents.object(entries[0], JSON) == first
        assert house.stores.budget.size <= 64_000

    run(test, budget=64_000)
