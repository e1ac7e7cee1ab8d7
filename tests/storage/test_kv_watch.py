"""How a watch catches up while the store is written to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.kv.contract import HistoryPage, KVEvent, Revision
from kapiserver.storage.kv.watch import (
    MAX_BUFFERED,
    RECENT_EVENTS,
    KVWatch,
    RecentEvents,
    WatchIndex,
)
from tests.storage.recorder import Recorder

PREFIXES = ("", "/", "/pods/", "/pods/default/", "/pods/default/a", "/pod")


class Busy:
    """A source that gets more writes while its history is read."""

    def __init__(self, meanwhile: int, times: int) -> None:
        self.revision = Revision(0)
        self.happened: list[KVEvent] = []
        self.asked = 0
        self._meanwhile = meanwhile
        self._times = times
        self.watch: KVWatch | None = None

    def write(self, count: int) -> None:
        """Add a number of events, under two prefixes in turn."""
        for _ in range(count):
            self.revision = Revision(self.revision + 1)
            event = KVEvent(f"/{self.revision % 2}/{self.revision}", self.revision, b"", None)
            self.happened.append(event)
            if self.watch is not None:
                self.watch.receive([event])

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int
    ) -> HistoryPage:
        """A limited part of the history; more events are added before it returns."""
        self.asked += 1
        if self.asked <= self._times:
            self.write(self._meanwhile)
        await asyncio.sleep(0)
        result = [e for e in self.happened if after < e.revision <= until][:limit]
        return HistoryPage([e for e in result if e.key.startswith(prefix)], result[-1].revision)

    def remove_watch(self, watch: KVWatch) -> None:
        self.watch = None

    def call_when_delivered(
        self, callback: Callable[[], None], revision: Revision | None = None
    ) -> None:
        assert revision is None
        callback()


@pytest.mark.parametrize(
    ("meanwhile", "times", "reads"),
    [(0, 0, 1), (7, 1_000_000, 1), (2 * MAX_BUFFERED - 1, 1, 1), (2 * MAX_BUFFERED + 2, 1, 18)],
)
async def test_a_watch_catches_up_with_a_busy_store(meanwhile: int, times: int, reads: int) -> None:
    """Events that occur while history is read are buffered, and read again only if the buffer
    overflows; none is lost or repeated, even if writes never pause."""
    source, recorder = Busy(meanwhile, times), Recorder()
    source.write(100)
    watch = source.watch = KVWatch(source, "/1/", Revision(3), recorder)
    watch.request_progress()
    async with asyncio.timeout(60):
        await watch.replay()
    source.write(2)
    assert recorder.seen == [
        e for e in source.happened if e.key.startswith("/1/") and e.revision > 3
    ]
    assert recorder.progressed == [source.revision - 2]
    assert source.asked == reads


@given(
    st.lists(st.tuples(st.sampled_from(("watch", "cancel", "write")), st.sampled_from(PREFIXES)))
)
def test_events_reach_the_watches_of_their_keys(steps: list[tuple[str, str]]) -> None:
    """Each watch gets the events below its prefix while it is in the index, whatever watches began
    and ended before."""
    index, source, revision = WatchIndex(), Busy(0, 0), Revision(0)
    recorders: dict[str, tuple[KVWatch, Recorder, list[str]]] = {}
    for step, prefix in steps:
        if step == "watch" and prefix not in recorders:
            recorder = Recorder()
            watch = KVWatch(source, prefix, revision, recorder)
            index.start(watch, BackgroundTasks())
            recorders[prefix] = watch, recorder, []
        elif step == "cancel" and prefix in recorders:
            index.discard(recorders[prefix][0])
            assert recorders[prefix][1].keys() == recorders.pop(prefix)[2]
        elif step == "write":
            revision = Revision(revision + 1)
            key = f"{prefix}key-{revision}"
            index.dispatch([KVEvent(key, revision, b"", None)])
            for each, (_, _, expected) in recorders.items():
                if key.startswith(each):
                    expected.append(key)
    assert all(recorder.keys() == expected for _, recorder, expected in recorders.values())


def test_recent_changes_are_bounded() -> None:
    """Recent changes are delivered from memory; older and large ones are not kept there."""
    recent = RecentEvents(Revision(10))
    assert recent.history("/", Revision(9), Revision(12)) is None
    recent.add([KVEvent("/a", Revision(11), b"", None), KVEvent("/b", Revision(12), b"", None)])
    assert recent.history("/b", Revision(10), Revision(12)) == HistoryPage(
        [KVEvent("/b", Revision(12), b"", None)], Revision(12)
    )
    assert recent.history("/", Revision(11), Revision(11)) == HistoryPage([], Revision(11))
    recent.add([KVEvent("/c", Revision(12 + n), b"", None) for n in range(1, RECENT_EVENTS)])
    assert recent.history("/", Revision(11), Revision(12)) is not None
    assert recent.history("/", Revision(10), Revision(12)) is None
    recent.add([KVEvent("/d", Revision(5000), bytes(5 << 20), None)])
    assert recent.history("/", Revision(4999), Revision(5000)) is None
    assert recent.history("/", Revision(5000), Revision(5000)) == HistoryPage([], Revision(5000))
