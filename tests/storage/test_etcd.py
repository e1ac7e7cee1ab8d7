"""Properties of the etcd store only: broken and hung connections, several members, TLS, users."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import (
    contextmanager,
    suppress,
)
from pathlib import Path

import pytest

from kapiserver.storage.backends import BackendSections, open_store
from kapiserver.storage.errors import (
    Compacted,
    OutcomeUnknown,
    Refused,
    Unavailable,
    ValueTooLarge,
)
from kapiserver.storage.etcd import store as etcd_store
from kapiserver.storage.etcd import transport as etcd_transport
from kapiserver.storage.etcd.config import EtcdSettings, EtcdTransport
from kapiserver.storage.etcd.store import open_etcd
from tests.storage.conftest import Configure, Open, answers
from tests.storage.etcd_server import ETCDCTL_FLAGS, Member, free_port, program, shared_etcd
from tests.storage.recorder import Recorder
from tests.storage.relay import Relay


@pytest.fixture
def shared_url(etcd_program: Path) -> str:
    """The URL of a member that tests share."""
    return shared_etcd(etcd_program).url


async def test_two_stores_see_each_other(shared_url: str, configure: Configure) -> None:
    """Writes of one server are visible to reads and watches of another."""
    url = shared_url
    prefix = f"/{uuid.uuid4().hex}"
    first = await open_etcd(configure(url, prefix=prefix))
    second = await open_etcd(configure(url, prefix=prefix))
    recorder = Recorder()
    watch = second.watch("/a/", after=await first.current_revision(), sink=recorder)
    revision = await first.create("/a/x", b"")
    assert await second.current_revision() >= revision
    watch.request_progress()
    await recorder.wait_until(lambda: recorder.progressed)
    assert recorder.progressed[0] >= revision
    assert recorder.keys() == ["/a/x"]
    await first.close()
    await second.close()


async def test_keys_and_values_are_stored_unchanged(
    member: Member, transport: EtcdTransport
) -> None:
    """Without a prefix, etcd has exactly the keys and values that were written."""
    sections = BackendSections(etcd=EtcdSettings(etcd_transport=transport))
    store = await open_store(f"etcd:{member.url}", sections=sections)
    await store.create("/registry/pods/default/x", b"k8s\0bytes")
    command = [
        program("etcdctl"),
        f"--endpoints={member.url}",
        *ETCDCTL_FLAGS,
        "get",
        "--prefix",
        "/registry",
    ]
    output = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: ASYNC221 - it ends at once
    assert output == b"/registry/pods/default/x\nk8s\0bytes\n"
    await store.close()


async def test_keys_that_are_not_text(shared_url: str, opened: Open) -> None:
    """A key that another program wrote and that is not UTF-8 can be listed, watched and deleted,
    and does not block later events."""
    async with opened(shared_url) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        key = store._prefix.encode() + b"/a/\xff\xfe"
        await store._etcd.write(store._codec.put(key, b"v"))
        await store.create("/a/x", b"")
        await recorder.count(2)
        page = await store.range("/a/")
        assert [item.key for item in page.items] == ["/a/x", recorder.keys()[0]]
        await store.delete(page.items[1].key, expected=page.items[1].revision)
        await recorder.count(3)


async def test_progress_with_other_users(shared_url: str, opened: Open) -> None:
    """A watch gets progress even if the newest revision belongs to a key of another store."""
    url = shared_url
    async with opened(url) as store, opened(url) as other_store:
        recorder = Recorder()
        watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
        revision = await other_store.create("/a/x", b"")
        watch.request_progress()
        await recorder.wait_until(lambda: recorder.progressed)
        assert recorder.progressed[0] >= revision
        assert not recorder.seen


async def test_history_up_to_a_key_of_others(
    monkeypatch: pytest.MonkeyPatch, shared_url: str, opened: Open
) -> None:
    """History is complete although the last revision is of a key of another store."""
    monkeypatch.setattr(etcd_store, "STREAM_CHECK_SECONDS", 60.0)
    async with opened(shared_url) as store, opened(shared_url) as other_store:
        start_revision = await store.current_revision()
        revision = await store.create("/a/x", b"")
        last = await other_store.create("/a/x", b"")
        page = await store.history("/a/", start_revision, last, 9, previous=True)
        assert [event.revision for event in page.events] == [revision]
        assert page.until == last


async def test_large_ranges_come_in_pieces(
    monkeypatch: pytest.MonkeyPatch, shared_url: str, opened: Open
) -> None:
    """A range that needs several calls is one snapshot."""
    monkeypatch.setattr(etcd_store, "PAGE", 7)
    async with opened(shared_url) as store:
        await asyncio.gather(*(store.create(f"/a/{number:02}", b"") for number in range(30)))
        page = await store.range("/a/")
        assert [item.key for item in page.items] == [f"/a/{number:02}" for number in range(30)]
        page = await store.range("/a/", limit=20)
        assert (len(page.items), page.remaining) == (20, 10)


async def test_a_watch_goes_on_after_a_restart(member: Member, opened: Open) -> None:
    """After a restart of etcd a watch delivers every later event once."""
    async with opened(member.url) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/before", b"")
        await recorder.count(1)
        member.kill()
        with pytest.raises(Unavailable):
            await store.create("/a/lost", b"")
        with pytest.raises(Unavailable):
            await store.get("/a/before")
        member.start()
        member.wait()
        await store.create("/a/after", b"")
        await recorder.count(2)
        assert recorder.keys() == ["/a/before", "/a/after"]


async def test_a_watch_that_missed_what_was_compacted_ends(member: Member, opened: Open) -> None:
    """A watch that was disconnected while its history was compacted ends with Compacted; a new
    watch works."""
    async with opened(member.url) as store, opened(member.url) as other_store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/x", b"")
        await recorder.count(1)
        assert store._stream is not None
        store._stream.cancel()  # acts like a broken connection
        for number in range(3):
            last = await other_store.create(f"/b/{number}", b"")
        await other_store.compact(last)
        store._stream = asyncio.create_task(store._run_stream())  # and tries again
        assert isinstance(await recorder.end(), Compacted)
        second_recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=second_recorder)
        await store.create("/a/y", b"")
        await second_recorder.count(1)


async def test_a_hung_etcd_is_unavailable_in_bounded_time(
    member: Member, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    """Calls to an etcd that accepts and does not answer fail within a bounded time, and succeed
    after it recovers. The error of a write says that its outcome is unknown, but if it waited for a
    lease."""
    async with opened(member.url) as store:
        revision = await store.create("/a/x", b"")
        monkeypatch.setattr(etcd_transport, "CALL_SECONDS", 0.5)
        member.hang()
        for operation, is_unknown in (
            (lambda: store.get("/a/x"), False),
            (lambda: store.range("/a/"), False),
            (lambda: store.create("/a/y", b""), True),
            (lambda: store.create("/a/z", b"", ttl=60), False),
            (lambda: store.update("/a/x", b"", expected=revision), True),
            (lambda: store.current_revision(), False),
            (lambda: store.compact(revision), True),
        ):
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable) as raised:
                    await operation()
            assert isinstance(raised.value, OutcomeUnknown) is is_unknown
        monkeypatch.undo()
        member.resume()
        await answers(store)  # recovery takes a while
        assert (await store.get("/a/x")).item is not None


async def test_a_lost_response(member: Member, configure: Configure) -> None:
    """If the connection breaks after etcd has made a write, the error says that its outcome is
    unknown."""
    prefix = f"/{uuid.uuid4().hex}"
    async with Relay(member.port) as relay:
        store = await open_etcd(configure(relay.url, prefix=prefix))
        direct = await open_etcd(configure(member.url, prefix=prefix))
        first, second = [await store.create(key, b"") for key in ("/a/x", "/a/y")]
        recorder = Recorder()
        direct.watch("/a/", after=second, sink=recorder)
        writes = (
            lambda: store.create("/a/z", b""),
            lambda: store.update("/a/x", b"new", expected=first),
            lambda: store.delete("/a/y", expected=second),
        )
        for count, write in enumerate(writes, 1):
            relay.withhold()
            writing = asyncio.create_task(write())
            await recorder.count(count)
            relay.cut()
            with pytest.raises(OutcomeUnknown, match=OutcomeUnknown.MESSAGE):
                await writing
        assert [item.key for item in (await store.range("/a/")).items] == ["/a/x", "/a/z"]
        await store.close()
        await direct.close()


async def test_a_stream_that_falls_silent_is_replaced(
    member: Member, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    """A watch whose stream hangs while etcd answers is reopened and loses no event."""
    monkeypatch.setattr(etcd_store, "SILENT_STREAM_SECONDS", 0.3)
    async with opened(member.url) as store:
        recorder = Recorder()
        watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
        assert store._stream is not None
        store._stream.cancel()  # acts like a stream without events
        await store.create("/a/x", b"")
        watch.request_progress()
        await recorder.count(1)


async def test_a_value_beyond_etcds_limit(
    member: Member, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that etcd or its gateway refuses is ValueTooLarge, and is not written."""
    monkeypatch.setattr(etcd_transport, "CALL_SECONDS", 60.0)  # large values, a busy machine
    async with opened(member.url) as store:
        revision = await store.create("/a/x", b"")
        for size in (1_600_000, 2_200_000, 3_000_000):
            with pytest.raises(ValueTooLarge):
                await store.create("/a/y", bytes(size))
            with pytest.raises(ValueTooLarge):
                await store.update("/a/x", bytes(size), expected=revision)
        await store.update("/a/x", bytes(1_500_000), expected=revision)
        assert [item.key for item in (await store.range("/a/")).items] == ["/a/x"]


async def test_an_etcd_without_space(etcd_program: Path, opened: Open) -> None:
    """A full etcd refuses writes with its own message, and reads succeed, also in servers that
    start later."""
    member = Member(flags=["--quota-backend-bytes=2000000"], etcd=etcd_program)
    try:
        member.start()
        member.wait()
        async with opened(member.url) as store:

            async def fill() -> None:
                for number in range(1000):  # etcd learns the file's size every 100 ms
                    await store.create(f"/a/{number}", bytes(1_000_000))

            with pytest.raises(Refused, match=r"^etcdserver: mvcc: database space exceeded$"):
                await fill()
            async with opened(member.url) as other_store:
                for item in (store, other_store):
                    assert (await item.current_revision()) > 1
            assert (await store.range("/a/")).items
    finally:
        member.remove()


@contextmanager
def cluster(etcd: Path) -> Iterator[list[Member]]:
    """Three members with an elected leader."""
    peers = {name: free_port() for name in ("one", "two", "three")}
    flags = ("--heartbeat-interval=100", "--election-timeout=1000")  # generous for busy machines
    members = [Member(name, peers, flags, etcd) for name in peers]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait()
        yield members
    finally:
        for member in members:
            member.remove()


def is_leader(member: Member) -> bool:
    """Whether a member is the leader of its cluster."""
    status = member.status()
    return bool(status["leader"] == status["header"]["member_id"])


@pytest.mark.parametrize("end", [Member.kill, Member.hang], ids=["killed", "hung"])
@pytest.mark.parametrize(
    "leader",
    [
        pytest.param(True, id="leader"),
        pytest.param(False, id="follower", marks=pytest.mark.slow),
    ],
)
async def test_failover(
    etcd_program: Path,
    leader: bool,
    end: Callable[[Member], None],
    monkeypatch: pytest.MonkeyPatch,
    opened: Open,
) -> None:
    """If the member that a store uses is killed or hangs, calls and watches continue at the others,
    and each event is delivered once, in order."""
    with cluster(etcd_program) as members:
        leading: list[bool] = []
        while leading.count(True) != 1:
            leading = [is_leader(member) for member in members]
        first = members[leading.index(leader)]
        other_members = [member for member in members if member is not first]
        async with opened(first.url, *(member.url for member in other_members)) as store:
            recorder = Recorder()
            store.watch("/a/", after=await store.current_revision(), sink=recorder)
            acknowledged = []
            for number in range(10):
                await store.create(f"/a/{number}", b"")
            monkeypatch.setattr(etcd_transport, "CALL_SECONDS", 1.0)
            end(first)
            async with asyncio.timeout(60):
                while len(acknowledged) < 30:
                    number += 1
                    with suppress(Unavailable):  # the failed create may have been applied
                        await store.create(f"/a/{number}", b"")
                        acknowledged.append(f"/a/{number}")
            stored_keys = {item.key for item in (await store.range("/a/")).items}
            assert set(acknowledged) <= stored_keys
            await recorder.wait_until(lambda: stored_keys <= set(recorder.keys()))
            assert sorted(recorder.keys()) == sorted(stored_keys)
            revisions = [event.revision for event in recorder.seen]
            assert revisions == sorted(revisions)


async def test_no_etcd(configure: Configure) -> None:
    """Opening a store without a server raises Unavailable."""
    nowhere = tuple(f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.raises(Unavailable):
        await open_etcd(configure(*nowhere))
