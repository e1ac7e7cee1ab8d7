"""The state of a test server: loaded from manifests, dumped, saved and brought back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from kapiserver.api.types import Tree
from kapiserver.apiserver.user import APISERVER
from kapiserver.testing.state import dumps, manifests, snapshots
from kapiserver.testing.state.manifests import Source
from kapiserver.testing.state.memory_store import Snapshot
from kapiserver.testing.state.start import StartState
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous


class State(Subject):
    """All objects of a server at one time."""

    update_snapshots = False
    """Whether `assert_matches_snapshot` writes files; set by the pytest plugin."""

    def __init__(
        self,
        loop: ServerLoop,
        start: StartState,
        settle: Callable[[], Awaitable[None]],
        *,
        settles_first: bool,
    ) -> None:
        super().__init__(loop)
        self._start = start
        self._settle = settle
        """Returns when the server has done the work that is due."""
        self._settles_first = settles_first
        """Whether `load` and `dump` wait until the server has settled, because runs must be the
        same."""

    async def wait_for_start(self) -> None:
        """Return when the state is known to which a reset brings the server back: what is created
        later does not belong to it. Call it on the server's loop."""
        await self._start.wait()

    @on_server_loop
    async def load_async(self, *sources: Source, namespace: str = "default") -> list[Tree]:
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
        await self._start.wait()
        if self._settles_first:
            await self._settle()
        server = self._server
        client = server.client(APISERVER, user_agent="kapiserver-testing", authorize=False)
        objects = manifests.read_manifests(sources)
        return await manifests.load(server, client, objects, namespace, self._settle)

    load = synchronous(load_async)

    @on_server_loop
    async def dump_async(
        self,
        *kinds: str,
        namespace: str = "",
        everything: bool = False,
        normalise: bool = True,
    ) -> str:
        """Return objects as YAML documents, sorted by kind, namespace and name.

        kinds       kinds as in `objects.history`; without any, all of them except Events, Leases
                    and IP addresses
        namespace   "" for all
        everything  also objects that are as they were after the start
        normalise   leave out or replace what differs between runs: uids, resource versions, times,
                    managedFields, certificates, and addresses and names chosen at random

        Raises ValueError for an unknown kind, RuntimeError if the store is not in memory.
        """
        if self._settles_first:
            await self._settle()
        unchanged = () if everything else (await self._start.snapshot()).items
        resources = dumps.dumped_resources(self._server, kinds)
        items = [
            item
            for item in self._start.store.snapshot().items
            if everything or not snapshots.is_left_to_controllers(item)
        ]
        objects = dumps.dumped_objects(self._server, items, resources, namespace, unchanged)
        return dumps.to_yaml(objects, normalise=normalise)

    dump = synchronous(dump_async)

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

    @on_server_loop
    async def snapshot_async(self) -> Snapshot:
        """Return the state of all objects, for `restore`, when the server has done the work that is
        due. Raises RuntimeError if the store is not in memory."""
        await self._start.snapshot()  # the objects that every cluster has
        await self._settle()
        return self._start.store.snapshot()

    snapshot = synchronous(snapshot_async)

    @on_server_loop
    async def restore_async(self, snapshot: Snapshot) -> None:
        """Bring all objects back to a snapshot of this server, in milliseconds, and return when its
        controllers have reacted. Watches see the differences as events, objects keep their uids,
        and resource versions go on upwards. The clock, faults and requests stay as they are."""
        await self._settle()  # work in progress must not write after the restore
        snapshots.restore(self._server, self._start.store, snapshot)
        await self._settle()

    restore = synchronous(restore_async)
