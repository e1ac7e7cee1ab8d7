"""Encryption at rest over every backend: readers get plain objects, the stored bytes are
encrypted."""

from __future__ import annotations

import base64
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.selectors import parse
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, Write
from kapiserver.storage.encryption.config import parse_encryption_config
from kapiserver.storage.encryption.transformers import EncryptionRules
from kapiserver.storage.errors import AlreadyExists, Conflict, CorruptList, Undecryptable
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from kapiserver.storage.wrappers.encryption_store import EncryptedStore
from tests.storage.etcd_server import Member, running_member
from tests.storage.kmskit import no_kms
from tests.storage.objectkit import (
    JSON,
    PROTOBUF,
    Client,
    StorageHarness,
    config_map,
    key,
    named,
    pod,
    put,
    run,
    watch,
)

PROVIDERS = ("aesgcm", "aescbc", "secretbox")


def configured(*providers: str, resources: str = "secrets, configmaps") -> EncryptionRules:
    """Encryption with providers such as `aesgcm:new`; the first one seals."""
    lines = []
    for provider in providers:
        name, _, key_name = provider.partition(":")
        secret = base64.b64encode((key_name * 32).encode()[:32]).decode()
        keys = f"{{keys: [{{name: {key_name}, secret: {secret}}}]}}" if key_name else "{}"
        lines.append(f"{{{name}: {keys}}}")
    text = (
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"
        f"resources: [{{resources: [{resources}], providers: [{', '.join(lines)}]}}]"
    )
    return EncryptionRules(parse_encryption_config(text.encode(), "test", no_kms), replaceable=True)


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """An etcd whose data directory these tests may search."""
    with running_member() as member:
        yield member


@pytest.fixture(params=["sqlite", "etcd"])
def storage_spec(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each backend: its spec, and the directory of its data."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'store.db'}", tmp_path
    member = request.getfixturevalue("member")
    return f"etcd:{member.url}", member.data


def bytes_below(folder: Path) -> bytes:
    """The contents of all files below a directory."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_secrets_are_not_in_the_files(storage_spec: Any, provider: str, tmp_path: Path) -> None:
    """The content, labels and old values of a Secret are in none of the files of the store or of a
    backup; its key is."""
    spec, folder = storage_spec
    names = {part: os.urandom(12).hex() for part in ("value", "label", "later", "last", "name")}

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        data = {"k": names["value"]}
        secret = config_map(names["name"], labels={"a": names["label"]}, data=data)
        await store.create(secret)
        await put(store, names["name"], "data", to={"k": names["later"]})
        entry = await store.get(key(names["name"]))
        assert entry.tree()["data"] == {"k": names["later"]}
        await put(store, names["name"], "data", to={"k": names["last"]})
        await store.delete(key(names["name"]), DeleteQuery())
        item = (await harness.kv.get(entry.path, revision=entry.revision)).item
        assert item is not None
        assert item.value.startswith(f"k8s:enc:{provider}:v1:one:".encode())
        check()
        if spec.startswith("sqlite"):
            with sqlite3.connect(tmp_path / "store.db") as source:
                copy = sqlite3.connect(tmp_path / "copy.db")
                source.backup(copy)
                copy.close()
            check()

    def check() -> None:
        stored_bytes = bytes_below(folder)
        assert names["name"].encode() in stored_bytes
        for part in ("value", "label", "later", "last"):
            assert names[part].encode() not in stored_bytes, part
            assert base64.b64encode(names[part].encode()) not in stored_bytes, part

    run(test, spec, encryption=configured(f"{provider}:one"), root=f"/{tmp_path.name}")
    check()


def test_search_finds_plain_values(tmp_path: Path) -> None:
    """The search of the test above finds unencrypted values, in the write-ahead log and in the
    file."""

    async def test(harness: StorageHarness) -> None:
        await harness.of("configmaps").create(config_map("a", data={"k": "plainly-there"}))
        assert b"plainly-there" in bytes_below(tmp_path)

    spec = f"sqlite:{tmp_path / 'store.db'}"
    run(test, spec, encryption=configured("aesgcm:one", resources="secrets"))
    assert b"plainly-there" in bytes_below(tmp_path)


def test_reads_are_decrypted(storage_spec: Any, tmp_path: Path) -> None:
    """Gets, lists, pages, old revisions, selectors, watches and their history return plain objects,
    also in the next server."""
    spec, _ = storage_spec
    options: dict[str, Any] = {"encryption": configured("secretbox:one"), "root": f"/{tmp_path}"}

    async def write(harness: StorageHarness) -> int:
        store = harness.of("configmaps")
        start_revision = (await store.list(ListQuery())).revision
        client = Client()
        watching = await watch(store, client, resource_version=f"{start_revision}")
        for name in ("a", "b", "c"):
            labels = {"which": name}
            await store.create(config_map(name, labels=labels, data={"k": name}))
        await put(store, "b", "data", to={"k": "new"})
        await store.delete(key("c"), DeleteQuery())
        await client.count(5)
        assert [event["object"]["data"] for event in client.events] == [
            {"k": "a"}, {"k": "b"}, {"k": "c"}, {"k": "new"}, {"k": "c"},
        ]  # fmt: skip
        watching.cancel()
        await read_all(harness)
        return start_revision

    async def read_all(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        assert (await store.get(key("b"))).tree()["data"] == {"k": "new"}
        assert (await store.get(key("a"))).labels == {"which": "a"}
        listing = await store.list(ListQuery(selection=parse("which=b", "")))
        assert named(listing.entries) == ["b"]
        first = await store.list(ListQuery(limit=1))
        assert first.entries[0].encode(PROTOBUF)
        await put(store, "b", "data", to={"k": "newer"})
        harness.clock.advance(3600)
        query = ListQuery(limit=1, continue_token=first.continue_token)
        second = await store.list(query)
        assert second.entries[0].tree()["data"] == {"k": "new"}
        await put(store, "b", "data", to={"k": "new"})

    async def read(harness: StorageHarness) -> None:
        await read_all(harness)
        client = Client()
        watching = await watch(
            harness.of("configmaps"), client, resource_version=f"{start_revision}"
        )
        await client.count(7)
        assert [event["object"]["data"]["k"] for event in client.events] == [
            "a", "b", "c", "new", "c", "newer", "new", "newer", "new",
        ][: len(client.events)]  # fmt: skip
        watching.cancel()

    start_revision = run(write, spec, **options)
    run(read, spec, **options)


@pytest.mark.parametrize("old_provider", ["aesgcm:old", "aescbc:old", "secretbox:old", "identity"])
def test_keys_are_rotated(old_provider: str, storage_spec: Any, tmp_path: Path) -> None:
    """With a new first key, values of the old key and plain ones are readable, and the next update
    seals them again even if it changes nothing; after that, an update without changes writes
    nothing."""
    spec, _ = storage_spec
    root = f"/{tmp_path}"

    async def write(harness: StorageHarness) -> None:
        await harness.of("configmaps").create(config_map("a", data={"k": "v"}))

    async def rewrite(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        old = await store.get(key("a"))
        dry = await store.update(key("a"), lambda current: current, Write(dry_run=True))
        assert dry.entry.revision == old.revision
        rewritten = await store.update(key("a"), lambda current: current)
        assert rewritten.outcome == "updated"
        assert rewritten.entry.revision > old.revision
        item = (await harness.kv.get(old.path)).item
        assert item is not None
        assert item.value.startswith(b"k8s:enc:aesgcm:v1:new:")
        unchanged = await store.update(key("a"), lambda current: current)
        assert (unchanged.outcome, unchanged.entry.revision) == (
            "unchanged",
            rewritten.entry.revision,
        )
        assert unchanged.entry.tree()["data"] == {"k": "v"}

    async def read(harness: StorageHarness) -> None:
        assert (await harness.of("configmaps").get(key("a"))).tree()["data"] == {"k": "v"}

    run(write, spec, root=root, encryption=configured(old_provider))
    run(rewrite, spec, root=root, encryption=configured("aesgcm:new", old_provider))
    run(read, spec, root=root, encryption=configured("aesgcm:new"))


def test_decryption() -> None:
    """With identity first, sealed values are readable, and the next update stores them in plain."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        entry = (await store.create(config_map("a", data={"k": "v"}))).entry
        encryption.replace(configured("identity", "aesgcm:one")._overrides)
        await store.update(key("a"), lambda current: current)
        item = (await harness.kv.get(entry.path)).item
        assert item is not None
        assert item.value.startswith(b"k8s\0")

    encryption = configured("aesgcm:one")
    run(test, encryption=encryption)


WRONG_KEYS = [
    ("aesgcm:other", "configmaps", "no matching key was found for the provided AES transformer"),
    ("secretbox:one", "configmaps", "no matching prefix found"),
    ("identity", "configmaps", "no matching prefix found"),
    ("aesgcm:one", "secrets", "identity transformer tried to read encrypted data"),
]


@pytest.mark.parametrize(("provider", "resources", "message"), WRONG_KEYS)
def test_a_wrong_key(
    provider: str, resources: str, message: str, storage_spec: Any, tmp_path: Path
) -> None:
    """A value that does not open is an internal error for its readers; other objects are not
    affected, and the right key repairs everything without a restart."""
    spec, _ = storage_spec
    root = f"/{tmp_path}"
    right, wrong_key = configured("aesgcm:one"), configured(provider, resources=resources)

    async def write(harness: StorageHarness) -> None:
        await harness.of("configmaps").create(config_map("a", labels={"x": "y"}, data={"k": "v"}))

    async def check_error(call: Callable[[], Any]) -> None:
        with pytest.raises(Undecryptable) as caught:
            await call()
        assert caught.value.problem == message

    async def check_list(call: Callable[[], Any]) -> None:
        with pytest.raises(CorruptList) as caught:
            await call()
        (error,) = caught.value.errors
        assert (error.key, error.problem) == (f"{root}/configmaps/default/a", message)

    async def read(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        with pytest.raises(Undecryptable, match=message):
            (await store.get(key("a"))).encode(JSON)
        await check_list(lambda: store.list(ListQuery()))
        labelled = ListQuery(selection=parse("x=y", ""))
        await check_list(lambda: store.list(labelled))
        await check_list(lambda: store.list(ListQuery(limit=1, resource_version="0")))
        await check_error(lambda: put(store, "a", "data", to={}))
        await check_error(lambda: store.delete(key("a"), DeleteQuery()))
        with pytest.raises(AlreadyExists):
            await store.create(config_map("a"))
        await store.create(config_map("b", data={"k": "w"}))
        assert (await store.get(key("b"))).tree()["data"] == {"k": "w"}
        by_name = ListQuery(selection=parse("", "metadata.name=b"), namespace="default")
        assert named((await store.list(by_name)).entries) == ["b"]
        client = Client()
        await watch(store, client, resource_version="0")
        await client.wait_until(lambda: client.closed)
        assert client.summary[-1][0] == "ERROR"
        assert message in client.events[-1]["object"]["message"]
        wrong_key.replace(right._overrides)
        assert (await store.get(key("a"))).tree()["data"] == {"k": "v"}
        assert "a" in named((await store.list(labelled)).entries)
        await harness.of("pods").create(pod("p"))

    run(write, spec, root=root, encryption=right)
    run(read, spec, root=root, encryption=wrong_key)


def test_values_are_bound_to_their_keys() -> None:
    """A value of AES-GCM that is copied to another key of the store does not open."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        entry = (await store.create(config_map("a", data={"k": "v"}))).entry
        item = (await harness.kv.get(entry.path)).item
        assert item is not None
        await harness.kv.create(f"{entry.path}b", item.value)
        with pytest.raises(Undecryptable, match="cipher: message authentication failed"):
            (await store.get(key("ab"))).tree()

    run(test, encryption=configured("aesgcm:one"))


async def test_a_conflict_has_the_plain_value() -> None:
    """The value of a conflict is decrypted, as that of a read is."""
    kv = await open_embedded(None)
    transformer = configured("aesgcm:one").transformer_for("", "configmaps")
    assert transformer is not None
    store = EncryptedStore(kv, transformer)
    revision = await store.create("/a", b"plain")
    assert b"plain" not in getattr((await kv.get("/a")).item, "value", b"plain")
    other = Revision(revision + 1)
    for write in (store.update("/a", b"", expected=other), store.delete("/a", expected=other)):
        with pytest.raises(Conflict) as caught:
            await write
        assert (caught.value.current, caught.value.value) == (revision, b"plain")
    await kv.close()
