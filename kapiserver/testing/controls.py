"""The base class of TestServer: the controls of a test, and its view of the server.

Controls composes the parts of the other modules of this package, and passes them to
`kapiserver.app.serve`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import RunningServer, serve
from kapiserver.parts import Parts
from kapiserver.storage.backends import MEMORY
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from kapiserver.testing.determinism import identifiers
from kapiserver.testing.determinism.clock import Duration, TestClock, parse_seconds
from kapiserver.testing.determinism.identifiers import InlineOffloader, SeededIdentifiers
from kapiserver.testing.faults.faults import Faults
from kapiserver.testing.history import assertions
from kapiserver.testing.history.activity import Activity
from kapiserver.testing.history.conditions import Condition
from kapiserver.testing.history.history import Journal, ObjectRevision, object_history
from kapiserver.testing.history.recorder import Recording, recorded_writes, save
from kapiserver.testing.history.request_filter import RequestFilter
from kapiserver.testing.history.requests import Requests
from kapiserver.testing.history.settling import settle
from kapiserver.testing.host import Host
from kapiserver.testing.state import dumps, manifests, snapshots
from kapiserver.testing.state.kinds import check_plural
from kapiserver.testing.state.manifests import Source
from kapiserver.testing.state.memory_store import MemoryStore, Snapshot, open_memory_store
from kapiserver.testing.state.prepared import keep_policy, restore_policy

T = TypeVar("T")

MAX_SHORT_TIMERS = 50
"""Short timers that run before a server with a seed counts as settled."""

_NOT_IN_MEMORY = "the server's store is not in memory"


class Controls(Host):
    """The controls of one server.

    clock       its time
    faults      what goes wrong
    requests    the requests that it received
    """

    update_snapshots = False
    """Whether `assert_matches_snapshot` writes files; set by the pytest plugin."""

    def __init__(self, *, seed: int | str | None = None) -> None:
        self._seed = seed
        self.clock = TestClock(self, start=None if seed is None else identifiers.START)
        self._activity = Activity()
        self._journal = Journal(self.clock.now, self._on_write)
        self.requests = Requests(self._activity.notify, self._before_request, self._check_filter)
        self.faults = Faults(self, self.requests, self._revision, self._check_filter)
        self._store: MemoryStore | None = None
        self._start: asyncio.Task[Snapshot] | None = None
        """Takes the snapshot of the state at the start."""
        self._settle_lock = asyncio.Lock()
        self._settling: asyncio.Task[None] | None = None
        """Settles the server after a write; used only with a seed."""

    @asynccontextmanager
    async def serve(self, config: Config) -> AsyncIterator[RunningServer]:
        """Run a server with these controls until the block ends. Raises the errors of `serve`."""
        self._settle_lock = asyncio.Lock()
        self.clock.restart()
        self.requests.clear()
        self._journal.restart()
        in_memory = config.storage.partition(":")[2] == MEMORY
        self._store = await open_memory_store(self.clock) if in_memory else None
        if self._store is not None:
            self._store.watch("", after=self._store.revision, sink=self._journal)
        # Prepared objects have another creation time than a server whose clock is frozen.
        store = None if self.clock.frozen else self._store
        has_policy = store is not None and restore_policy(config, store)
        serving = serve(config, self._parts(), has_policy=has_policy)
        slices = nullcontext() if self._seed is None else unlimited_slices()
        try:
            with slices:
                async with serving as running:
                    await self._attach(running)
                    if store is not None:
                        keep_policy(config, store)
                    try:
                        yield running
                    finally:
                        self._cancel_tasks()
        finally:
            await self._detach()

    def _parts(self) -> Parts:
        """Return the parts of the server that these controls replace."""
        return Parts(
            clock=self.clock,
            kv=self._store,
            identifiers=None if self._seed is None else SeededIdentifiers(self._seed),
            offloader=None if self._seed is None else InlineOffloader(),
            faults=self.faults,
            filters=(self.requests.filter, *FILTERS),
        )

    async def _attach(self, running: RunningServer) -> None:
        """Connect the controls with a server that has started."""
        server = running.cluster.server
        self.clock.settle_with(functools.partial(self._settle, server))
        if self._store is not None:
            self._start = asyncio.create_task(self._take_start(server, self._store))
        else:
            kv = running.cluster.kv
            kv.watch("", after=await kv.current_revision(), sink=self._journal)

    async def _detach(self) -> None:
        """Wait until the tasks of the controls have ended."""
        self._cancel_tasks()
        tasks = [task for task in (self._start, self._settling) if task is not None]
        self._start = self._settling = None
        if tasks:
            await asyncio.wait(tasks)

    def _cancel_tasks(self) -> None:
        for task in (self._start, self._settling):
            if task is not None:
                task.cancel()

    async def _take_start(self, server: Server, store: MemoryStore) -> Snapshot:
        """Return a snapshot when the controllers have created what every cluster has."""
        await self._settle(server)
        return store.snapshot()

    async def settle_async(self) -> None:
        """Return when the server has done the work that is due: its controllers have reacted to all
        writes, and its authorizer and admission know them. Call it on the loop of the server."""
        await self._settle(self._server)

    async def _settle(self, server: Server) -> None:
        """Return when the server has done the work that is due. With a seed, run its short timers
        too."""
        async with self._settle_lock:  # two calls at once would wait for each other's work
            await settle(server)
            for _ in range(MAX_SHORT_TIMERS):
                if not self.clock.fire_short_timer():
                    return
                await settle(server)

    def _on_write(self) -> None:
        self._activity.notify()
        has_started = self._start is not None and self._start.done()
        is_settling = self._settling is not None and not self._settling.done()
        if self._seed is not None and has_started and not is_settling:
            self._settling = asyncio.create_task(self._settle(self._server))

    async def _before_request(self, request: Request) -> None:
        """Let the first writes wait for the objects that every cluster has, such as the service
        accounts of its namespaces. With a seed let each request wait for the work that those before
        it have caused."""
        if self._start is not None and not self._start.done():
            if request.method != "GET" or self._seed is not None:
                await asyncio.shield(self._start)
        elif self._seed is not None:
            await self._settle(self._server)

    def _check_filter(self, request_filter: RequestFilter) -> None:
        """Raise ValueError for a name of a resource that no request has, such as its singular."""
        for text in request_filter.resources if self.is_running else ():
            self.call(functools.partial(check_plural, self._server.scheme, text))

    def _revision(self) -> int:
        """Return the revision of the store, 0 if it is not in memory."""
        return 0 if self._store is None else self._store.revision

    @property
    def _server(self) -> Server:
        return self.running.cluster.server

    @property
    def _observer(self) -> assertions.ServerObserver:
        return assertions.ServerObserver(self._server, self._journal, self._activity)

    # The history of objects and requests.

    def history(self, kind: str, name: str, *, namespace: str = "default") -> list[ObjectRevision]:
        """Return the revisions of an object, the oldest first. Each has the difference to the one
        before, and the field manager of its write. A deleted object has a history too.

        kind        the kind, as kubectl takes it: `deployment`, `deploy`, `Deployment`,
                    `deployments.apps`, `apps/v1/Deployment`
        namespace   ignored for cluster-scoped kinds

        The server keeps the last 20,000 writes of all objects, but at most 32 MiB. Raises
        ValueError for an unknown kind.
        """
        return self.call(lambda: object_history(self._server, self._journal, kind, name, namespace))

    # Waiting and assertions.

    def wait_for(
        self,
        target: str,
        condition: Condition,
        *,
        namespace: str = "default",
        timeout: Duration = "10s",
    ) -> Tree | None:
        """Return the object when it meets a condition; None for `delete`.

        target      `kind/name`, with a kind as in `history`
        condition   `create`, `delete`, `condition=Available`, `condition=Ready=False`,
                    `jsonpath={.status.phase}=Running`, or a function of the object (None if there
                    is none), which runs on the server's loop and must not wait
        timeout     a time in real time: `10s`, `500ms` or seconds

        Raises AssertionError at the time-out: its message has the object, its last revisions and
        its Events. Raises ValueError for a malformed condition.
        """
        return self.run(self._wait_for(target, condition, namespace, timeout))

    async def wait_for_async(
        self,
        target: str,
        condition: Condition,
        *,
        namespace: str = "default",
        timeout: Duration = "10s",  # noqa: ASYNC109 - the argument of `wait_for`
    ) -> Tree | None:
        """Do the same as `wait_for`, without blocking the caller's loop."""
        return await self.run_async(self._wait_for(target, condition, namespace, timeout))

    async def _wait_for(
        self, target: str, condition: Condition, namespace: str, limit: Duration
    ) -> Tree | None:
        seconds = parse_seconds(limit)
        return await self._observer.wait_for(target, condition, namespace, seconds)

    def wait_until(self, predicate: Callable[[], object], *, timeout: Duration = "10s") -> None:
        """Return when `predicate` returns a true value. It runs on the server's loop after each
        write, request and injected fault, and must not wait. Raises AssertionError when the
        time-out, in real time, is over."""
        self.run(self._wait_until(predicate, timeout))

    async def wait_until_async(
        self,
        predicate: Callable[[], object],
        *,
        timeout: Duration = "10s",  # noqa: ASYNC109 - the argument of `wait_until`
    ) -> None:
        """Do the same as `wait_until`, without blocking the caller's loop."""
        await self.run_async(self._wait_until(predicate, timeout))

    async def _wait_until(self, predicate: Callable[[], object], limit: Duration) -> None:
        async def check() -> object:
            return predicate()

        seconds = parse_seconds(limit)
        if not await self._observer.wait_until(check, seconds):
            raise AssertionError(f"the condition was not met within {seconds:g} s")

    def assert_converges(self, *, within: Duration = "10s", quiet: Duration = "500ms") -> None:
        """Return when no object was written for the time `quiet`; Events and Leases do not count.
        Raises AssertionError after the time `within`, with the objects that still change and their
        last differences. Times are real."""
        self.run(self._assert_converges(within, quiet))

    async def assert_converges_async(
        self, *, within: Duration = "10s", quiet: Duration = "500ms"
    ) -> None:
        """Do the same as `assert_converges`, without blocking the caller's loop."""
        await self.run_async(self._assert_converges(within, quiet))

    async def _assert_converges(self, within: Duration, quiet: Duration) -> None:
        await self._observer.assert_converges(parse_seconds(within), parse_seconds(quiet))

    def assert_no_hot_loop(
        self,
        *,
        requests: int = 10,
        within: Duration = "10s",
        verb: str | Sequence[str] = assertions.WRITES,
        resource: str | Sequence[str] = "",
        namespace: str = "",
        user: str = "",
        user_agent: str = "",
    ) -> None:
        """Raise AssertionError if one client (user and User-Agent) sent more than `requests`
        requests with the same verb for the same object within the time `within` of the server's
        clock. The other arguments select requests, as in `server.requests.select`. The message
        compares the last two bodies."""
        records = self.requests.select(
            verb=verb, resource=resource, namespace=namespace, user=user, user_agent=user_agent
        )
        assertions.assert_no_hot_loop(records, requests=requests, within=parse_seconds(within))

    # State.

    def snapshot(self) -> Snapshot:
        """Return the state of all objects, for `restore`, when the server has done the work that is
        due. Raises RuntimeError if the store is not in memory."""
        return self.run(self._snapshot())

    async def snapshot_async(self) -> Snapshot:
        """Do the same as `snapshot`, without blocking the caller's loop."""
        return await self.run_async(self._snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Bring all objects back to a snapshot of this server, in milliseconds, and return when its
        controllers have reacted. Watches see the differences as events, objects keep their uids,
        and resource versions go on upwards. The clock, faults and requests stay as they are."""
        self.run(self._restore(snapshot))

    async def restore_async(self, snapshot: Snapshot) -> None:
        """Do the same as `restore`, without blocking the caller's loop."""
        await self.run_async(self._restore(snapshot))

    def reset(self) -> None:
        """Bring all objects back to the state after the start, remove all faults, and forget
        requests and history; for a server that several tests use. The clock goes on."""
        self.run(self._reset())

    async def reset_async(self) -> None:
        """Do the same as `reset`, without blocking the caller's loop."""
        await self.run_async(self._reset())

    async def _snapshot(self) -> Snapshot:
        await self._state_at_start()  # the objects that every cluster has
        await self._settle(self._server)
        return self._memory_store.snapshot()

    async def _restore(self, snapshot: Snapshot) -> None:
        await self._settle(self._server)  # work in progress must not write after the restore
        snapshots.restore(self._server, self._memory_store, snapshot)
        await self._settle(self._server)

    async def _reset(self) -> None:
        self.faults.clear()
        await self._restore(await self._state_at_start())
        self.requests.clear()
        self._journal.clear()

    async def _state_at_start(self) -> Snapshot:
        if self.running and self._start is not None:
            return await asyncio.shield(self._start)
        raise RuntimeError(_NOT_IN_MEMORY)

    @property
    def _memory_store(self) -> MemoryStore:
        if self.running and self._store is not None:
            return self._store
        raise RuntimeError(_NOT_IN_MEMORY)

    def record(self, path: str | Path, *, test: str = "") -> None:
        """Write the requests, the writes and the state to a file, for `kapiserver replay`. It has
        the Secrets too. `test` is a name to show. Raises OSError."""
        recording = self.call(
            lambda: Recording(
                test=test,
                root=self._server.config.key_root,
                time=self.clock.now(),
                base=self._journal.base,
                writes=recorded_writes(self._journal),
                requests=[record.to_dict() for record in self.requests],
            )
        )
        save(recording, Path(path))

    def load(self, *sources: Source, namespace: str = "default") -> list[Tree]:
        """Create the objects of manifests, or replace those that exist, with their status; return
        them as stored.

        sources     directories (with subdirectories) and files of YAML or JSON, texts of YAML, and
                    objects
        namespace   the namespace of objects of namespaced kinds that name none

        Namespaces come first, then CustomResourceDefinitions, which are served when their objects
        are created, then what others refer to; webhooks and policies come last. Raises OSError,
        ValueError for malformed manifests and unknown kinds, and
        `kapiserver.api.resource_client.StatusError` when the server refuses an object.
        """
        return self.run(self._load(sources, namespace))

    async def load_async(self, *sources: Source, namespace: str = "default") -> list[Tree]:
        """Do the same as `load`, without blocking the caller's loop."""
        return await self.run_async(self._load(sources, namespace))

    async def _load(self, sources: Sequence[Source], namespace: str) -> list[Tree]:
        if self._start is not None:
            await self._state_at_start()
        server = self._server
        if self._seed is not None:
            await self._settle(server)
        client = server.client(APISERVER, user_agent="kapiserver-testing", authorize=False)
        objects = manifests.read_manifests(sources)
        return await manifests.load(
            server, client, objects, namespace, functools.partial(self._settle, server)
        )

    def dump(
        self,
        *kinds: str,
        namespace: str = "",
        everything: bool = False,
        normalise: bool = True,
    ) -> str:
        """Return objects as YAML documents, sorted by kind, namespace and name.

        kinds       kinds as in `history`; without any, all of them except Events, Leases and IP
                    addresses
        namespace   "" for all
        everything  also objects that are as they were after the start
        normalise   leave out or replace what differs between runs: uids, resource versions, times,
                    managedFields, certificates, and addresses and names chosen at random

        Raises ValueError for an unknown kind, RuntimeError if the store is not in memory.
        """
        return self.run(self._dump(kinds, namespace, everything, normalise))

    async def dump_async(
        self,
        *kinds: str,
        namespace: str = "",
        everything: bool = False,
        normalise: bool = True,
    ) -> str:
        """Do the same as `dump`, without blocking the caller's loop."""
        return await self.run_async(self._dump(kinds, namespace, everything, normalise))

    async def _dump(
        self, kinds: Sequence[str], namespace: str, everything: bool, normalise: bool
    ) -> str:
        if self._seed is not None:
            await self._settle(self._server)
        unchanged = () if everything else (await self._state_at_start()).items
        resources = dumps.dumped_resources(self._server, kinds)
        items = [
            item
            for item in self._memory_store.snapshot().items
            if everything or not snapshots.is_left_to_controllers(item)
        ]
        objects = dumps.dumped_objects(self._server, items, resources, namespace, unchanged)
        return dumps.to_yaml(objects, normalise=normalise)

    def assert_matches_snapshot(
        self, path: str | Path, *kinds: str, namespace: str = "", update: bool | None = None
    ) -> None:
        """Compare the normalised dump with that in a file. Raises AssertionError with the
        difference, also if there is no file.

        update      write the file instead; None: if pytest runs with --kapiserver-update-snapshots
        """
        text = self.dump(*kinds, namespace=namespace)
        must_update = self.update_snapshots if update is None else update
        dumps.assert_matches(Path(path), text, update=must_update)
