"""Events of controllers: which are written, combined, counted and dropped."""

import asyncio
import zlib

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.loop.event_correlation import EventCorrelator, ObservedEvent
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.manager import apiserver_context
from kapiserver.parts import Parts
from tests.clock import ManualClock

POD = ("Pod", "v1", "shop", "web", "uid")
NOW = 1_700_000_000.0


def event(message="m", reason="Failed", involved=POD, type_="Warning"):
    return ObservedEvent(involved, type_, reason, message)


@pytest.mark.parametrize(
    ("events", "written"),
    [
        # The same event is counted.
        ([(event(), 0)] * 3, [("m", 1), ("m", 2), ("m", 3)]),
        # Other messages, reasons and objects are other events.
        (
            [(event(), 0), (event("n"), 0), (event(reason="Other"), 0), (event(), 5)],
            [("m", 1), ("n", 1), ("m", 1), ("m", 2)],
        ),
        # The tenth message of a kind is combined with the following ones.
        (
            [(event(str(number)), number) for number in range(12)],
            [(str(number), 1) for number in range(9)]
            + [
                ("(combined from similar events): 9", 1),
                ("(combined from similar events): 10", 2),
                ("(combined from similar events): 11", 3),
            ],
        ),
        # After ten minutes without one, messages are separate again.
        (
            [(event(str(number)), number) for number in range(9)] + [(event("late"), 609)],
            [(str(number), 1) for number in range(9)] + [("late", 1)],
        ),
        # An object gets 25 events of a type, and one more every five minutes.
        (
            [(event(reason=str(number)), 0) for number in range(26)],
            [("m", 1)] * 25 + [None],
        ),
        (
            [(event(), 0)] * 27 + [(event(), 299), (event(), 300), (event(), 301)],
            [("m", number) for number in range(1, 26)] + [None, None, None, ("m", 29), None],
        ),
        (
            [(event(), 0)] * 25 + [(event(type_="Normal"), 0), (event(involved=("x",)), 0)],
            [("m", number) for number in range(1, 26)] + [("m", 1), ("m", 1)],
        ),
    ],
)
def test_correlation(events, written):
    correlator, results = EventCorrelator(), []
    for each, seconds in events:
        decision = correlator.correlate(each, NOW + seconds)
        results.append(decision and (decision.message, decision.count))
    assert results == written


def test_old_records_are_forgotten():
    correlator = EventCorrelator()
    for number in range(5000):
        correlator.correlate(event(involved=(str(number),)), NOW)
    assert correlator.correlate(event(involved=("4999",)), NOW).count == 2
    assert correlator.correlate(event(involved=("0",)), NOW).count == 1


class Recorder:
    """A recorder on a server in memory."""

    def __init__(self, server, clock):
        self.clock = clock
        self.context = apiserver_context(server, "test")
        self.recorder = EventRecorder(self.context, "tester")
        client = server.client(APISERVER, authorize=False)
        self.events = client.resource("v1", "events", namespace="default")
        uid = {"name": "web", "namespace": "default", "uid": "one"}
        self.obj = {"apiVersion": "v1", "kind": "Pod", "metadata": uid}

    async def note(self, message, recorder=None):
        await (recorder or self.recorder).note(self.obj, "Seen", message)

    async def written(self):
        await self.recorder.wait_idle()
        events = (await self.events.list())["items"]
        return {each["metadata"]["name"]: (each["message"], each["count"]) for each in events}


def on_recorder(test):
    async def run():
        clock = ManualClock()
        async with open_cluster(Config(), Parts(clock=clock)) as cluster:
            client = cluster.server.client(APISERVER, authorize=False)
            await client.resource("v1", "namespaces").create({"metadata": {"name": "default"}})
            await test(Recorder(cluster.server, clock))

    asyncio.run(run())


def name(component, number=0):
    """The name of an event at the first time of the clock."""
    offset = zlib.crc32(component.encode()) % 1_000_000
    return f"web.{1_700_000_000 * 10**9 + offset + number:x}"


FIRST, NEXT = name("tester"), name("tester", 1)


def test_names_and_counts():
    """Names have the time in nanoseconds; at the same time, the next free number."""

    async def run(recorder):
        for message in ("a", "b", "a"):
            await recorder.note(message)
        assert await recorder.written() == {FIRST: ("a", 2), NEXT: ("b", 1)}
        recorder.clock.advance(10)
        await recorder.note("a")
        assert (await recorder.written())[FIRST] == ("a", 3)
        written = await recorder.events.get(FIRST)
        assert written["firstTimestamp"] == "2023-11-14T22:13:20Z"
        assert written["lastTimestamp"] == "2023-11-14T22:13:30Z"
        assert written["source"] == {"component": "tester"}
        assert written["involvedObject"]["uid"] == "one"

    on_recorder(run)


def test_another_recorder_at_the_same_time():
    async def run(recorder):
        other = EventRecorder(recorder.context, "other")
        await recorder.note("a")
        await recorder.note("b", other)
        await other.wait_idle()
        assert await recorder.written() == {FIRST: ("a", 1), name("other"): ("b", 1)}

    on_recorder(run)


def test_an_event_that_has_expired_is_written_again():
    async def run(recorder):
        await recorder.note("a")
        assert list(await recorder.written()) == [FIRST]
        await recorder.events.delete(FIRST)
        recorder.clock.advance(3600)
        await recorder.note("a")
        (found,) = (await recorder.written()).values()
        assert found == ("a", 2)

    on_recorder(run)


def test_errors_and_many_events():
    """An event that is refused is dropped; a full queue is written before the next is added."""

    async def run(recorder):
        recorder.obj["metadata"]["namespace"] = "missing"
        await recorder.note("a")
        recorder.obj["metadata"]["namespace"] = "default"
        for _ in range(2500):
            await recorder.note("a")
        (found,) = (await recorder.written()).values()
        assert found == ("a", 25)

    on_recorder(run)


def test_stop():
    async def run(recorder):
        await recorder.note("a")
        assert not recorder.recorder.is_idle
        await recorder.recorder.stop()
        assert recorder.recorder.is_idle
        assert await recorder.written() == {}

    on_recorder(run)
