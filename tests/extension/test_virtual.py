"""Virtual resources: a source gives lists, the server makes everything else."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType

from kapiserver.api.types import Tree
from kapiserver.client import Client, StatusError
from kapiserver.client import Resource as ClientResource
from kapiserver.extension import Object, ObjectMeta, ObjectSource, Resource, Version
from kapiserver.extension.api_server import ApiServer
from tests.clock import ManualClock
from tests.extension.servers import plain_config, serving


class LampSpec(Struct):
    """A lamp."""

    watts: int = 40
    color: str | UnsetType = UNSET


class Lamp(Object):
    """A lamp somewhere."""

    spec: LampSpec


class OldSpec(Struct):
    """A lamp."""

    milliwatts: int = 40_000


class OldLamp(Object):
    """A lamp somewhere."""

    spec: OldSpec


def upgrade(old: OldLamp) -> Lamp:
    return Lamp(spec=LampSpec(watts=old.spec.milliwatts // 1000))


def downgrade(new: Lamp) -> OldLamp:
    return OldLamp(spec=OldSpec(milliwatts=new.spec.watts * 1000))


VERSIONS = (
    Version(name="v1"),
    Version(name="v1alpha1", type=OldLamp, to_hub=upgrade, from_hub=downgrade),
)


class ReadOnly(ObjectSource[Lamp]):
    """Lamps in a dict: watts by name."""

    def __init__(self, lamps: dict[str, int]) -> None:
        self.lamps = lamps
        self.lists = 0
        self.error: Exception | None = None

    async def list(self) -> Iterable[Lamp]:
        self.lists += 1
        if self.error is not None:
            raise self.error
        await asyncio.sleep(0)
        return [lamp(name, watts) for name, watts in self.lamps.items()]


class Lamps(ReadOnly):
    """Lamps that clients may change."""

    async def create(self, new: Lamp) -> None:
        self.lamps[new.metadata.name] = new.spec.watts

    async def update(self, new: Lamp, old: Lamp) -> None:
        assert self.lamps[new.metadata.name] == old.spec.watts
        self.lamps[new.metadata.name] = new.spec.watts

    async def delete(self, old: Lamp) -> None:
        del self.lamps[old.metadata.name]


def lamp(name: str, watts: int) -> Lamp:
    """Return a lamp."""
    return Lamp(metadata=ObjectMeta(name=name), spec=LampSpec(watts=watts))


def lamps_of(source: ObjectSource[Lamp]) -> Resource[Lamp]:
    """Return the resource of a source."""
    return Resource(Lamp, group="example.com", versions=VERSIONS, namespaced=False, source=source)


def _body(name: str, watts: int) -> Tree:
    head: Tree = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": name}}
    return {**head, "spec": {"watts": watts}}


def _client_of(client: Client, version: str = "v1") -> ClientResource:
    return client.resource(f"example.com/{version}", "lamps")


def _seen(page: Tree) -> dict[str, int]:
    return {item["metadata"]["name"]: item["spec"]["watts"] for item in page["items"]}


def test_read_only() -> None:
    """A resource without methods for writes is listed, and refuses writes."""

    async def run() -> None:
        async with serving(lamps_of(ReadOnly({"desk": 5}))) as (_, client):
            lamps = _client_of(client)
            desk = await lamps.get("desk")
            assert desk["metadata"]["generation"] == 1
            assert desk["metadata"]["uid"]
            discovery = await client.call("GET", "/apis/example.com/v1")
            assert discovery["resources"][0]["verbs"] == ["get", "list", "watch"]
            for call in (lamps.create(_body("x", 1)), lamps.delete("desk"), lamps.update(desk)):
                with pytest.raises(StatusError) as raised:
                    await call
                assert raised.value.code == 405

    asyncio.run(run())


def test_versions() -> None:
    """Each version shows the objects of the source, and clients write in both."""

    async def run() -> None:
        source = Lamps({"desk": 5})
        async with serving(lamps_of(source)) as (_, client):
            old = _client_of(client, "v1alpha1")
            desk = await old.get("desk")
            assert desk["spec"] == {"milliwatts": 5000}
            desk["spec"]["milliwatts"] = 7000
            await old.update(desk)
            assert source.lamps == {"desk": 7}
            assert (await _client_of(client).get("desk"))["spec"] == {"watts": 7}

    asyncio.run(run())


class WholeLamps(ObjectSource[Lamp]):
    """Lamps that are kept with all of their metadata, as a document database keeps them."""

    def __init__(self) -> None:
        self.lamps: dict[str, Lamp] = {}

    async def list(self) -> Iterable[Lamp]:
        return copy.deepcopy(list(self.lamps.values()))

    async def create(self, new: Lamp) -> None:
        self.lamps[new.metadata.name] = new

    async def update(self, new: Lamp, old: Lamp) -> None:
        self.lamps[new.metadata.name] = new

    async def delete(self, old: Lamp) -> None:
        del self.lamps[old.metadata.name]


def test_whole_objects() -> None:
    """A source may keep the metadata that the server made, also when another program changes what
    is kept and leaves the generation."""

    async def run() -> None:
        source = WholeLamps()
        async with serving(lamps_of(source)) as (_, client):
            lamps = _client_of(client)
            await lamps.create(_body("desk", 5))
            await lamps.patch("desk", {"spec": {"watts": 7}})
            source.lamps["desk"].spec.watts = 9
            first, second = await lamps.get("desk"), await lamps.get("desk")
            assert (first["spec"]["watts"], first["metadata"]["generation"]) == (9, 3)
            assert first == second
            await lamps.patch("desk", {"spec": {"watts": 11}})
            await lamps.delete("desk")
            assert source.lamps == {}

    asyncio.run(asyncio.wait_for(run(), 30))


def test_broken_source() -> None:
    """A source that raises an error makes 503, and works again later."""

    async def run() -> None:
        source = ReadOnly({"desk": 5})
        async with serving(lamps_of(source)) as (_, client):
            lamps = _client_of(client)
            for error in (None, OSError("no route"), ValueError("broken"), None):
                source.error = error
                if error is None:
                    assert _seen(await lamps.list_page()) == {"desk": 5}
                    continue
                with pytest.raises(StatusError) as raised:
                    await lamps.list_page()
                assert raised.value.code == 503

    asyncio.run(run())


def test_bad_names() -> None:
    """Objects whose names no path can have are left out."""

    async def run() -> None:
        lamps = {"desk": 5, "": 1, "a/b": 1, "../x": 1, "UPPER": 1, "x" * 300: 1}
        async with serving(lamps_of(ReadOnly(lamps))) as (_, client):
            assert _seen(await _client_of(client).list_page()) == {"desk": 5}

    asyncio.run(run())


def test_shared_lists() -> None:
    """Reads that arrive while the source is listed share the next list."""

    async def run() -> None:
        source = ReadOnly({"desk": 5})
        async with serving(lamps_of(source)) as (_, client):
            lamps = _client_of(client)
            await lamps.get("desk")
            before = source.lists
            await asyncio.gather(*(lamps.get("desk") for _ in range(50)))
            assert 1 <= source.lists - before <= 40

    asyncio.run(run())


def test_age_and_polls() -> None:
    """With a maximum age reads list once in that time; watches see changes by polling."""

    async def run() -> None:
        clock, source = ManualClock(), ReadOnly({"desk": 5})
        source.max_age_seconds = 60
        server = ApiServer([lamps_of(source)])
        async with (
            server.serve(plain_config(), clock=clock) as running,
            Client(running.url) as client,
        ):
            lamps = _client_of(client)
            page = await lamps.list_page()
            first = source.lists
            await lamps.get("desk")
            assert source.lists == first
            clock.time += 61
            await lamps.get("desk")
            assert source.lists == first + 1
            watch = lamps.watch(resourceVersion=page["metadata"]["resourceVersion"])
            event = asyncio.ensure_future(anext(watch))
            source.lamps["desk"] = 6
            while not event.done():
                clock.advance(61)
                await asyncio.sleep(0.01)
            assert event.result().object["spec"] == {"watts": 6}
            await watch.aclose()

    asyncio.run(run())


def test_restart() -> None:
    """A resource version of an earlier process is too old, so that clients list again."""

    async def run() -> None:
        source, clock, versions = ReadOnly({"desk": 5}), ManualClock(), []
        for _ in range(2):
            server = ApiServer([lamps_of(source)])
            clock.advance(10)
            async with (
                server.serve(plain_config(), clock=clock) as running,
                Client(running.url) as client,
            ):
                lamps = _client_of(client)
                page = await lamps.list_page()
                versions.append(int(page["metadata"]["resourceVersion"]))
                with pytest.raises(StatusError) as raised:
                    async for _event in lamps.watch(resourceVersion=str(versions[0] - 1000)):
                        pass
                assert raised.value.code == 410
        assert versions[1] - versions[0] == 10_000

    asyncio.run(run())


_names = st.sampled_from(("a", "b", "c"))
_steps = st.lists(
    st.tuples(st.sampled_from(("put", "remove", "create", "patch", "delete")), _names),
    max_size=12,
)


@given(_steps)
@settings(max_examples=25)
def test_any_order(steps: list[tuple[str, str]]) -> None:
    """After any writes of clients and of others, a list is what the source has, and the events of
    a watch lead there."""

    async def run() -> None:
        source = Lamps({})
        async with serving(lamps_of(source)) as (_, client):
            lamps = _client_of(client)
            start = (await lamps.list_page())["metadata"]["resourceVersion"]
            for watts, (step, name) in enumerate(steps):
                await _take(step, name, watts, source, lamps)
                assert _seen(await lamps.list_page()) == source.lamps
            end = (await lamps.list_page())["metadata"]["resourceVersion"]
            assert await _followed(lamps, start, end) == source.lamps

    asyncio.run(run())


async def _take(step: str, name: str, watts: int, source: ReadOnly, lamps: ClientResource) -> None:
    if step == "put":
        source.lamps[name] = watts
        return
    if step == "remove":
        source.lamps.pop(name, None)
        return
    expected = {(True, "create"): 409, (False, "patch"): 404, (False, "delete"): 404}
    code = expected.get((name in source.lamps, step))
    with pytest.raises(StatusError) if code else contextlib.nullcontext() as raised:
        if step == "create":
            await lamps.create(_body(name, watts))
        elif step == "patch":
            await lamps.patch(name, {"spec": {"watts": watts}})
        else:
            await lamps.delete(name)
    if raised is not None:
        assert raised.value.code == code


async def _followed(lamps: ClientResource, start: str, end: str) -> dict[str, Any]:
    """Return what the events between two resource versions say."""
    seen: dict[str, Any] = {}
    if start == end:
        return seen
    async for event in lamps.watch(resourceVersion=start):
        name = event.object["metadata"]["name"]
        seen.pop(name, None)
        if event.type != "DELETED":
            seen[name] = event.object["spec"]["watts"]
        if event.object["metadata"]["resourceVersion"] == end:
            return seen
    return seen
