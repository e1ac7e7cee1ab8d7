"""The objects of a test server: their revisions, and waiting for their states.

A condition is checked after each write and request of the server. Waiting takes real time, because
the programs under test run in it. A failure shows the last state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from textwrap import indent

from kapiserver.api.accessors import copy_tree
from kapiserver.api.errors import NotRegistered
from kapiserver.api.types import Tree
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.codecs import yaml
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.history.activity import Activity
from kapiserver.testing.history.conditions import Condition, parse_condition
from kapiserver.testing.history.history import Journal, ObjectRevision, object_history, revision_of
from kapiserver.testing.state.kinds import find_resource, preferred_version
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

SHOWN_REVISIONS = 5
SHOWN_EVENTS = 10


class Objects(Subject):
    """The objects of a server: what was written, and waiting for what a test expects."""

    def __init__(self, loop: ServerLoop, journal: Journal, activity: Activity) -> None:
        super().__init__(loop)
        self._journal = journal
        """The writes of the server."""
        self._activity = activity
        """Notifies of the server's writes and requests."""

    def history(self, kind: str, name: str, *, namespace: str = "default") -> list[ObjectRevision]:
        """Return the revisions of an object, the oldest first. Each has the difference to the one
        before, and the field manager of its write. A deleted object has a history too.

        kind        the kind, as kubectl takes it: `deployment`, `deploy`, `Deployment`,
                    `deployments.apps`, `apps/v1/Deployment`
        namespace   ignored for cluster-scoped kinds

        The server keeps the last 20,000 writes of all objects, but at most 32 MiB. Raises
        ValueError for an unknown kind.
        """
        return self._server_loop.call(
            lambda: object_history(self._server, self._journal, kind, name, namespace)
        )

    @on_server_loop
    async def wait_for_async(
        self,
        target: str,
        condition: Condition,
        *,
        namespace: str = "default",
        timeout: Duration = "10s",  # noqa: ASYNC109 - real time, for the message
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
        seconds = parse_seconds(timeout)
        kind, _, name = target.rpartition("/")
        if not kind or not name:
            raise ValueError(f"{target!r} is not an object: write kind/name")
        is_met = parse_condition(condition)
        if condition == "delete":
            find_resource(self._server.scheme, kind)  # a misspelt kind would have no objects
        last: Tree | None = None

        async def check() -> bool:
            nonlocal last
            last = await self._current_object(kind, name, namespace)
            return is_met(last)

        if await self._activity.wait_until(check, seconds):
            return last
        resource = find_resource(self._server.scheme, kind)
        where = f" in namespace {namespace}" if resource.namespaced else ""
        text = (
            condition if isinstance(condition, str) else getattr(condition, "__name__", "condition")
        )
        raise AssertionError(
            f"{target}{where} has not met {text} within {seconds:g} s\n"
            + self._describe(kind, name, namespace, last)
        )

    wait_for = synchronous(wait_for_async)

    @on_server_loop
    async def assert_converges_async(
        self, *, within: Duration = "10s", quiet: Duration = "500ms"
    ) -> None:
        """Return when no object was written for the time `quiet`; Events and Leases do not count.
        Raises AssertionError when no such pause fits into the time `within` any more, with the
        objects that still change and their last differences; ValueError if it never does. Times
        are real."""
        seconds, pause = parse_seconds(within), parse_seconds(quiet)
        if pause > seconds:
            raise ValueError(f"a pause of {pause:g} s does not fit into {seconds:g} s")
        now = asyncio.get_running_loop().time
        last_write = now()
        end = last_write + seconds
        started = count = self._journal.count
        while last_write + pause <= end:
            if not await self._next_write(count, last_write + pause):
                return
            count, last_write = self._journal.count, now()
        write_counts = Counter(entry.event.key for entry in self._journal.since(started))
        lines = [
            f"{number} writes of {key}\n{indent(self._last_changes(key), '  ')}"
            for key, number in write_counts.most_common(SHOWN_REVISIONS)
        ]
        raise AssertionError(
            f"the server has not converged within {seconds:g} s: there was no pause of "
            f"{pause:g} s between writes\n" + "\n".join(lines)
        )

    assert_converges = synchronous(assert_converges_async)

    async def _current_object(self, kind: str, name: str, namespace: str) -> Tree | None:
        """Return a copy of an object, or None if it does not exist, or its kind is not known
        (yet)."""
        scheme = self._server.scheme
        try:
            resource = find_resource(scheme, kind)
            key = ObjectKey(namespace if resource.namespaced else "", name)
            entry = await self._server.stores.get(resource).get(key)
        except (ValueError, NotFound, NotRegistered):
            return None
        copy: Tree = copy_tree(in_version(scheme, entry.tree(), preferred_version(resource)))
        return copy

    def _describe(self, kind: str, name: str, namespace: str, obj: Tree | None) -> str:
        """Return what is known of an object: its state, its last revisions, its Events."""
        parts = ["last seen: there is no such object"]
        if obj is not None:
            parts = [f"last seen:\n{indent(_yaml(obj), '  ')}"]
        revisions = object_history(self._server, self._journal, kind, name, namespace)
        if revisions:
            lines = map(str, revisions[-SHOWN_REVISIONS:])
            parts.append("last revisions:\n" + indent("\n".join(lines), "  "))
        events = self._events_of(kind, name, namespace)[-SHOWN_EVENTS:]
        parts.append("events:\n" + indent("\n".join(events), "  ") if events else "no events")
        return "\n".join(parts)

    def _events_of(self, kind: str, name: str, namespace: str) -> list[str]:
        """Return the Events about an object that are in the journal, one line each."""
        kind_name = find_resource(self._server.scheme, kind).kind
        resource = find_resource(self._server.scheme, "v1/Event")
        prefix = self._server.stores.get(resource).codec.prefix
        newest: dict[str, str] = {}
        for entry in self._journal:
            if entry.event.value is None or not entry.event.key.startswith(prefix):
                continue
            event = revision_of(self._server, resource, entry).object or {}
            about = event.get("involvedObject") or {}
            if (about.get("kind"), about.get("name")) == (kind_name, name) and about.get(
                "namespace", namespace
            ) in ("", namespace):
                newest[entry.event.key] = (
                    f"{event.get('type')} {event.get('reason')}: {event.get('message')} "
                    f"(x{event.get('count') or 1})"
                )
        return list(newest.values())

    async def _next_write(self, count: int, deadline: float) -> bool:
        """Return True when an object was written after the first `count` writes, False at the
        deadline."""
        while self._journal.count <= count:
            if not await self._activity.wait(deadline):
                return False
        return True

    def _last_changes(self, key: str) -> str:
        server = self._server
        resource = server.scheme.resource_at(key[len(server.config.store.key_root) + 1 :])
        if resource is None:
            return ""
        entries = self._journal.of_key(key)[-2:]
        return "\n".join(str(revision_of(server, resource, entry)) for entry in entries)


def _yaml(obj: Tree) -> str:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return yaml.encode_value(obj | {"metadata": metadata}).decode().rstrip()
