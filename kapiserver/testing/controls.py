"""The base class of TestServer: the controls of a test, by subject.

`Controls.__init__` creates the subjects; `kapiserver/testing/subject.py` says what a subject is
and how to add one. `Controls.serve` hands the clock, the faults and the record of requests to the
server that it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.request import Request
from kapiserver.app import RunningServer, serve
from kapiserver.host import Host
from kapiserver.parts import Parts
from kapiserver.storage.backends import MEMORY
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from kapiserver.testing.determinism import identifiers
from kapiserver.testing.determinism.clock import TestClock
from kapiserver.testing.determinism.clock_path import CLOCK_PATH, clock_handler
from kapiserver.testing.determinism.identifiers import InlineOffloader, SeededIdentifiers
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.faults.faults import Faults
from kapiserver.testing.history.activity import Activity
from kapiserver.testing.history.history import Journal
from kapiserver.testing.history.objects import Objects
from kapiserver.testing.history.recorder import Recording, recorded_writes, save
from kapiserver.testing.history.requests import Requests
from kapiserver.testing.history.settling import settle
from kapiserver.testing.simulated.images import Images
from kapiserver.testing.simulated.metrics import Metrics
from kapiserver.testing.simulated.nodes import Nodes
from kapiserver.testing.simulated.pods import Pods
from kapiserver.testing.state.memory_store import MemoryStore, Snapshot, open_memory_store
from kapiserver.testing.state.prepared import keep_definitions, keep_policy, restore_objects
from kapiserver.testing.state.start import StartState
from kapiserver.testing.state.state import State
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

MAX_ROUNDS_OF_TIMERS = 50
"""How often short timers run before a server with a seed counts as settled."""


class Controls(Subject, ServerLoop):
    """The controls of one server: a subject for each thing that a test controls, and methods for
    what concerns the server as a whole.

    clock       its time
    faults      what goes wrong
    requests    the requests that it received
    objects     its objects: waiting for them, and their revisions
    pods        the fate of its simulated pods
    nodes       the kubelets of its simulated nodes
    metrics     what its simulated pods use, and other metrics
    images      what its simulated nodes can pull
    state       all of its objects at one time: load, dump, save and bring back
    """

    def __init__(self, *, seed: int | str | None = None, host: Host | None = None) -> None:
        super().__init__(self)
        self._seed = seed
        self._host = host
        self._activity = Activity()
        start = None if seed is None else identifiers.START
        self.clock = TestClock(self, self._settle, start=start)
        self._journal = Journal(self.clock.now, self._on_write)
        self.requests = Requests(self, self._activity.notify, self._before_request)
        self.objects = Objects(self, self._journal, self._activity)
        self.pods = Pods(self, self._settle)
        self.nodes = Nodes(self, self._settle)
        self.metrics = Metrics(self, self._settle)
        self.images = Images(self, self._settle)
        self._start = StartState(self._settle)
        self.state = State(self, self._start, self._settle, settles_first=seed is not None)
        self.faults = Faults(self, self.requests, self._start.revision)
        self._served: RunningServer | None = None
        """The server, from its start to its end."""
        self._settle_lock = asyncio.Lock()
        self._settling: asyncio.Task[None] | None = None
        """Settles the server after a write; used only with a seed."""

    # Controls of the server as a whole.

    @on_server_loop
    async def settle_async(self) -> None:
        """Return when nothing is left to do at this time of the clock: the server's controllers
        have reacted to all writes, and its authorizer and admission know them."""
        await self._settle()

    settle = synchronous(settle_async)

    @on_server_loop
    async def until_settled_async(self) -> None:
        """Wait as `settle` does. The name says in a test that it only waits."""
        await self._settle()

    until_settled = synchronous(until_settled_async)

    @on_server_loop
    async def wait_until_async(
        self,
        predicate: Callable[[], object],
        *,
        timeout: Duration = "10s",  # noqa: ASYNC109 - real time, for the message
    ) -> None:
        """Return when `predicate` returns a true value. It runs on the server's loop after each
        write, request and injected fault, and must not wait. Raises AssertionError when the
        time-out, in real time, is over."""

        async def check() -> object:
            return predicate()

        seconds = parse_seconds(timeout)
        if not await self._activity.wait_until(check, seconds):
            raise AssertionError(f"the condition was not met within {seconds:g} s")

    wait_until = synchronous(wait_until_async)

    @on_server_loop
    async def reset_async(self, snapshot: Snapshot | None = None) -> None:
        """Bring all objects back to a snapshot of this server, without one to the state after the
        start; remove all faults, and forget requests and history. For a server that several tests
        use. The clock goes on."""
        self.faults.clear()
        await self.state.restore_async(snapshot or await self._start.snapshot())
        self.requests.clear()
        self._journal.clear()

    reset = synchronous(reset_async)

    def record(self, path: str | Path, *, test: str = "") -> None:
        """Write the requests, the writes and the state to a file, for `kapiserver replay`. It has
        the Secrets too. `test` is a name to show. Raises OSError."""
        recording = self.call(
            lambda: Recording(
                test=test,
                root=self._server.config.store.key_root,
                time=self.clock.now(),
                base=self._journal.base,
                writes=recorded_writes(self._journal),
                requests=[record.to_dict() for record in self.requests],
            )
        )
        save(recording, Path(path))

    # The server's life.

    @asynccontextmanager
    async def serve(self, config: Config) -> AsyncIterator[RunningServer]:
        """Run a server with these controls until the block ends. Raises the errors of `serve`."""
        self._settle_lock = asyncio.Lock()
        self.clock.restart()
        self.requests.clear()
        self._journal.restart()
        in_memory = config.store.storage.partition(":")[2] == MEMORY
        kv = await open_memory_store(self.clock) if in_memory else None
        self._start.open(kv)
        if kv is not None:
            kv.watch("", after=kv.revision, sink=self._journal)
        # Prepared objects have another creation time than a server whose clock is frozen.
        prepared = None if self.clock.frozen else kv
        has_policy = prepared is not None and restore_objects(config, prepared)
        serving = serve(config, self._parts(kv), host=self._host, has_policy=has_policy)
        slices = nullcontext() if self._seed is None else unlimited_slices()
        try:
            with slices:
                async with serving as running:
                    await self._attach(running, watch=kv is None)
                    if prepared is None:
                        self._start.begin()
                    else:
                        keep_policy(config, prepared)
                        self._start.begin(lambda snapshot: keep_definitions(config, snapshot))
                    try:
                        yield running
                    finally:
                        self._cancel_tasks()
        finally:
            await self._detach()

    def _parts(self, kv: MemoryStore | None) -> Parts:
        """Return the parts of the server that these controls replace."""
        return Parts(
            clock=self.clock,
            kv=kv,
            identifiers=None if self._seed is None else SeededIdentifiers(self._seed),
            offloader=None if self._seed is None else InlineOffloader(),
            faults=self.faults,
            filters=(self.requests.filter, *FILTERS),
            paths={CLOCK_PATH: clock_handler(self.clock)},
            page_features=("clock",),
        )

    async def _attach(self, running: RunningServer, *, watch: bool) -> None:
        """Connect the controls with a server that has started. `watch` says whether the journal
        must watch its store from now on."""
        self._served = running
        if watch:
            kv = running.cluster.kv
            kv.watch("", after=await kv.current_revision(), sink=self._journal)

    def _cancel_tasks(self) -> None:
        self._start.cancel()
        if self._settling is not None:
            self._settling.cancel()

    async def _detach(self) -> None:
        """Wait until the tasks of the controls have ended."""
        await self._start.close()
        settling, self._settling = self._settling, None
        if settling is not None:
            settling.cancel()
            await asyncio.wait([settling])
        self._served = None

    async def _settle(self) -> None:
        """Return when the server has done the work that is due. With a seed, run its short timers
        too."""
        running = self._served
        if running is None:
            return
        server, controllers = running.cluster.server, running.controllers
        async with self._settle_lock:  # two calls at once would wait for each other's work
            await settle(server, controllers)
            for _ in range(MAX_ROUNDS_OF_TIMERS):
                # What waits for a later time sets its timer again when that runs too early. So the
                # end is not that no timers are left, but that they change nothing.
                count = self._journal.count
                if not self.clock.fire_short_timers():
                    return
                await settle(server, controllers)
                if self._journal.count == count:
                    return

    def _on_write(self) -> None:
        self._activity.notify()
        is_settling = self._settling is not None and not self._settling.done()
        if self._seed is not None and self._start.is_taken and not is_settling:
            self._settling = asyncio.create_task(self._settle())

    async def _before_request(self, request: Request) -> None:
        """Let the first writes wait for the objects that every cluster has, such as the service
        accounts of its namespaces; with simulated nodes let reads wait too. With a seed let each
        request wait for the work that those before it have caused."""
        if self._start.is_pending:
            reads_wait = self._seed is not None or self._server.config.simulation.simulate
            if reads_wait or request.method != "GET":
                await self._start.wait()
        elif self._seed is not None:
            await self._settle()
