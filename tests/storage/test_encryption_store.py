"""Objects that are sealed at rest: everywhere in the clear above the store, nowhere in it."""

from __future__ import annotations

import base64
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.selectors import parse
from kapiserver.storage.encryption import EncryptionRules
from kapiserver.storage.encryption_config import parse_encryption_config
from kapiserver.storage.errors import AlreadyExists, Undecryptable
from kapiserver.storage.query import DeleteQuery, ListQuery
from tests.storage.etcd_server import Member
from tests.storage.objectkit import (
    JSON,
    PROTOBUF,
    Client,
    House,
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
    """Encryption by providers such as `aesgcm:new`, of which the first seals."""
    listed = []
    for each in providers:
        name, _, key_name = each.partition(":")
        secret = base64.b64encode((key_name * 32).encode()[:32]).decode()
        keys = f"{{keys: [{{name: {key_name}, secret: {secret}}}]}}" if key_name else "{}"
        listed.append(f"{{{name}: {keys}}}")
    text = (
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"
        f"resources: [{{resources: [{resources}], providers: [{', '.join(listed)}]}}]"
    )
    return EncryptionRules(parse_encryption_config(text.encode(), "test"), replaceable=True)


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """An etcd of these tests' own, whose data directory they may search."""
    member = Member()
    member.start()
    member.wait()
    yield member
    member.remove()


@pytest.fixture(params=["sqlite", "etcd"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each backend: its spec, and the directory of its data."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'store.db'}", tmp_path
    member = request.getfixturevalue("member")
    return f"etcd:{member.url}", member.data


def bytes_below(folder: Path) -> bytes:
    """All files of a directory."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_of_a_secret_is_in_the_store(place: Any, provider: str, tmp_path: Path) -> None:
    """However an object is written, its content, labels and old values are nowhere in the files of
    the store, nor in a copy of them; its key is."""
    spec, folder = place
    names = {part: os.urandom(12).hex() for part in ("value", "label", "later", "last", "name")}

    async def test(house: House) -> None:
        store = house.of("configmaps")
        data = {"k": names["value"]}
        made = config_map(names["name"], labels={"a": names["label"]}, data=data)
        await store.create(made)
        await put(store, names["name"], "data", to={"k": names["later"]})
        entry = await store.get(key(names["name"]))
        assert entry.tree()["data"] == {"k": names["later"]}
        await put(store, names["name"], "data", to={"k": names["last"]})
        await store.delete(key(names["name"]), DeleteQuery())
        item = (await house.kv.get(entry.path, revision=entry.revision)).item
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
        found = bytes_below(folder)
        assert names["name"].encode() in found
        for part in ("value", "label", "later", "last"):
            assert names[part].encode() not in found, part
            assert base64.b64encode(names[part].encode()) not in found, part

    run(test, spec, encryption=configured(f"{provider}:one"), root=f"/{tmp_path.name}")
    check()


def test_what_no_rule_names_is_in_the_clear(tmp_path: Path) -> None:
    """The search above finds what is not sealed, in the journal and in the file."""

    async def test(house: House) -> None:
        await house.of("configmaps").create(config_map("a", data={"k": "plainly-there"}))
        assert b"plainly-there" in bytes_below(tmp_path)

    spec = f"sqlite:{tmp_path / 'store.db'}"
    run(test, spec, encryption=configured("aesgcm:one", resources="secrets"))
    assert b"plainly-there" in bytes_below(tmp_path)


def test_everything_reads_in_the_clear(place: Any, tmp_path: Path) -> None:
    """Gets, lists, pages, past states, selectors, watches and their history see what was
    written; so does the next server."""
    spec, _ = place
    options: dict[str, Any] = {"encryption": configured("secretbox:one"), "root": f"/{tmp_path}"}

    async def write(house: House) -> int:
        store = house.of("configmaps")
        begin = (await store.list(ListQuery())).revision
        client = Client()
        watching = await watch(store, client, resource_version=f"{begin}")
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
        await read_all(house)
        return begin

    async def read_all(house: House) -> None:
        store = house.of("configmaps")
        assert (await store.get(key("b"))).tree()["data"] == {"k": "new"}
        assert (await store.get(key("a"))).labels == {"which": "a"}
        found = await store.list(ListQuery(selection=parse("which=b", "")))
        assert named(found.entries) == ["b"]
        first = await store.list(ListQuery(limit=1))
        assert first.entries[0].encode(PROTOBUF)
        await put(store, "b", "data", to={"k": "newer"})
        house.clock.advance(3600)
        query = ListQuery(limit=1, continue_token=first.continue_token)
        second = await store.list(query)
        assert second.entries[0].tree()["data"] == {"k": "new"}
        await put(store, "b", "data", to={"k": "new"})

    async def read(house: House) -> None:
        await read_all(house)
        client = Client()
        watching = await watch(house.of("configmaps"), client, resource_version=f"{begin}")
        await client.count(7)
        assert [event["object"]["data"]["k"] for event in client.events] == [
            "a", "b", "c", "new", "c", "newer", "new", "newer", "new",
        ][: len(client.events)]  # fmt: skip
        watching.cancel()

    begin = run(write, spec, **options)
    run(read, spec, **options)


@pytest.mark.parametrize("before", ["aesgcm:old", "aescbc:old", "secretbox:old", "identity"])
def test_keys_are_rotated(before: str, place: Any, tmp_path: Path) -> None:
    """With a new first key, what the old one sealed (or nobody) is read, and is sealed anew by the
    next update even when it changes nothing; once that was done, an update that changes nothing
    writes nothing."""
    spec, _ = place
    root = f"/{tmp_path}"

    async def write(house: House) -> None:
        await house.of("configmaps").create(config_map("a", data={"k": "v"}))

    async def rewrite(house: House) -> None:
        store = house.of("configmaps")
        old = await store.get(key("a"))
        dry = await store.update(key("a"), lambda current: current, dry_run=True)
        assert dry.entry.revision == old.revision
        written = await store.update(key("a"), lambda current: current)
        assert written.outcome == "updated"
        assert written.entry.revision > old.revision
        item = (await house.kv.get(old.path)).item
        assert item is not None
        assert item.value.startswith(b"k8s:enc:aesgcm:v1:new:")
        again = await store.update(key("a"), lambda current: current)
        assert (again.outcome, again.entry.revision) == ("unchanged", written.entry.revision)
        assert again.entry.tree()["data"] == {"k": "v"}

    async def read(house: House) -> None:
        assert (await house.of("configmaps").get(key("a"))).tree()["data"] == {"k": "v"}

    run(write, spec, root=root, encryption=configured(before))
    run(rewrite, spec, root=root, encryption=configured("aesgcm:new", before))
    run(read, spec, root=root, encryption=configured("aesgcm:new"))


def test_back_to_the_clear() -> None:
    """With identity first, what was sealed is read, and written in the clear by the next
    update."""

    async def test(house: House) -> None:
        store = house.of("configmaps")
        entry = (await store.create(config_map("a", data={"k": "v"}))).entry
        encryption.replace(configured("identity", "aesgcm:one")._overrides)
        await store.update(key("a"), lambda current: current)
        item = (await house.kv.get(entry.path)).item
        assert item is not None
        assert item.value.startswith(b"k8s\0")

    encryption = configured("aesgcm:one")
    run(test, encryption=encryption)


WRONG = [
    ("aesgcm:other", "configmaps", "no matching key was found for the provided AES transformer"),
    ("secretbox:one", "configmaps", "no matching prefix found"),
    ("identity", "configmaps", "no matching prefix found"),
    ("aesgcm:one", "secrets", "identity transformer tried to read encrypted data"),
]


@pytest.mark.parametrize(("provider", "resources", "words"), WRONG)
def test_a_wrong_key(provider: str, resources: str, words: str, place: Any, tmp_path: Path) -> None:
    """What does not open is an internal error for who asks for it; other objects are read and
    written as ever, and with the right key all is well again without a restart."""
    spec, _ = place
    root = f"/{tmp_path}"
    right, wrong = configured("aesgcm:one"), configured(provider, resources=resources)

    async def write(house: House) -> None:
        await house.of("configmaps").create(config_map("a", labels={"x": "y"}, data={"k": "v"}))

    async def refused(call: Callable[[], Any], words: str) -> None:
        with pytest.raises(Undecryptable) as caught:
            await call()
        assert str(caught.value) == words

    async def read(house: House) -> None:
        store = house.of("configmaps")
        of_list = f'unable to transform key "{root}/configmaps/default/a": {words}'
        with pytest.raises(Undecryptable, match=words):
            (await store.get(key("a"))).encode(JSON)
        await refused(lambda: store.list(ListQuery()), of_list)
        labelled = ListQuery(selection=parse("x=y", ""))
        await refused(lambda: store.list(labelled), of_list)
        await refused(lambda: store.list(ListQuery(limit=1, resource_version="0")), of_list)
        await refused(lambda: put(store, "a", "data", to={}), words)
        await refused(lambda: store.delete(key("a"), DeleteQuery()), words)
        with pytest.raises(AlreadyExists):
            await store.create(config_map("a"))
        await store.create(config_map("b", data={"k": "w"}))
        assert (await store.get(key("b"))).tree()["data"] == {"k": "w"}
        other = ListQuery(selection=parse("", "metadata.name=b"), namespace="default")
        assert named((await store.list(other)).entries) == ["b"]
        client = Client()
        await watch(store, client, resource_version="0")
        await client.until(lambda: client.closed)
        assert client.story[-1][0] == "ERROR"
        assert words in client.events[-1]["object"]["message"]
        wrong.replace(right._overrides)
        assert (await store.get(key("a"))).tree()["data"] == {"k": "v"}
        assert "a" in named((await store.list(labelled)).entries)
        await house.of("pods").create(pod("p"))

    run(write, spec, root=root, encryption=right)
    run(read, spec, root=root, encryption=wrong)


def test_values_are_bound_to_their_keys() -> None:
    """A value of AES-GCM that somebody puts under another key of the store does not open."""

    async def test(house: House) -> None:
        store = house.of("configmaps")
        entry = (await store.create(config_map("a", data={"k": "v"}))).entry
        item = (await house.kv.get(entry.path)).item
        assert item is not None
        await house.kv.create(f"{entry.path}b", item.value)
        with pytest.raises(Undecryptable, match="cipher: message authentication failed"):
            (await store.get(key("ab"))).tree()

    run(test, encryption=configured("aesgcm:one"))
