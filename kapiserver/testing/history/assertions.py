"""Waits for conditions, and asserts on the writes and requests of the programs under test.

A condition is checked after each write and request of the server. Waiting takes real time, because
the programs under test run in it. A failure shows the last state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from kapiserver.api.accessors import copy_tree
from kapiserver.api.errors import NotRegistered
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.codecs import yaml
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.testing.history.activity import Activity
from kapiserver.testing.history.conditions import Condition, parse_condition
from kapiserver.testing.history.diffs import changes
from kapiserver.testing.history.history import Journal, object_history, revision_of
from kapiserver.testing.history.requests import RequestRecord
from kapiserver.testing.state.kinds import find_resource, preferred_version

T = TypeVar("T")

SHOWN_REVISIONS = 5
SHOWN_EVENTS = 10
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class ServerObserver(Struct, frozen=True):
    """Waits for states of one server.

    journal     its writes
    activity    notifies of its writes and requests
    """

    server: Server
    journal: Journal
    activity: Activity

    async def wait_until(self, predicate: Callable[[], Awaitable[T]], seconds: float) -> T | None:
        """Return the first true value of a predicate, which is called again after each write and
        each request; None if it has none within `seconds`."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (value := await predicate()):
            if not await self.activity.wait(deadline):
                return await predicate() or None
        return value

    async def wait_for(
        self, target: str, condition: Condition, namespace: str, seconds: float
    ) -> Tree | None:
        """Return the object when it meets the condition; None for `delete`. Raises
        AssertionError."""
        kind, _, name = target.rpartition("/")
        if not kind or not name:
            raise ValueError(f"{target!r} is not an object: write kind/name")
        is_met = parse_condition(condition)
        if condition == "delete":
            find_resource(self.server.scheme, kind)  # a misspelt kind would have no objects
        last: Tree | None = None

        async def check() -> bool:
            nonlocal last
            last = await self._current_object(kind, name, namespace)
            return is_met(last)

        if await self.wait_until(check, seconds):
            return last
        resource = find_resource(self.server.scheme, kind)
        where = f" in namespace {namespace}" if resource.namespaced else ""
        text = (
            condition if isinstance(condition, str) else getattr(condition, "__name__", "condition")
        )
        raise AssertionError(
            f"{target}{where} has not met {text} within {seconds:g} s\n"
            + self._describe(kind, name, namespace, last)
        )

    async def _current_object(self, kind: str, name: str, namespace: str) -> Tree | None:
        """Return a copy of an object, or None if it does not exist, or its kind is not known
        (yet)."""
        scheme = self.server.scheme
        try:
            resource = find_resource(scheme, kind)
            key = ObjectKey(namespace if resource.namespaced else "", name)
            entry = await self.server.stores.get(resource).get(key)
        except (ValueError, NotFound, NotRegistered):
            return None
        copy: Tree = copy_tree(in_version(scheme, entry.tree(), preferred_version(resource)))
        return copy

    def _describe(self, kind: str, name: str, namespace: str, obj: Tree | None) -> str:
        """Return what is known of an object: its state, its last revisions, its Events."""
        parts = ["last seen: there is no such object"]
        if obj is not None:
            parts = [f"last seen:\n{_indented(_yaml(obj))}"]
        revisions = object_history(self.server, self.journal, kind, name, namespace)
        if revisions:
            lines = map(str, revisions[-SHOWN_REVISIONS:])
            parts.append("last revisions:\n" + _indented("\n".join(lines)))
        events = self._events_of(kind, name, namespace)[-SHOWN_EVENTS:]
        parts.append("events:\n" + _indented("\n".join(events)) if events else "no events")
        return "\n".join(parts)

    def _events_of(self, kind: str, name: str, namespace: str) -> list[str]:
        """Return the Events about an object that are in the journal, one line each."""
        kind_name = find_resource(self.server.scheme, kind).kind
        resource = find_resource(self.server.scheme, "v1/Event")
        prefix = self.server.stores.get(resource).codec.prefix
        newest: dict[str, str] = {}
        for entry in self.journal:
            if entry.event.value is None or not entry.event.key.startswith(prefix):
                continue
            event = revision_of(self.server, resource, entry).object or {}
            about = event.get("involvedObject") or {}
            if (about.get("kind"), about.get("name")) == (kind_name, name) and about.get(
                "namespace", namespace
            ) in ("", namespace):
                newest[entry.event.key] = (
                    f"{event.get('type')} {event.get('reason')}: {event.get('message')} "
                    f"(x{event.get('count') or 1})"
                )
        return list(newest.values())

    async def assert_converges(self, within: float, quiet: float) -> None:
        """Return when no object was written for `quiet` seconds; Events and Leases do not count.
        Raises AssertionError when no such pause fits into `within` seconds any more, with the
        objects that still change, and ValueError if it never does."""
        if quiet > within:
            raise ValueError(f"a pause of {quiet:g} s does not fit into {within:g} s")
        now = asyncio.get_running_loop().time
        last_write = now()
        end = last_write + within
        started = count = self.journal.count
        while last_write + quiet <= end:
            if not await self._next_write(count, last_write + quiet):
                return
            count, last_write = self.journal.count, now()
        write_counts = Counter(entry.event.key for entry in self.journal.since(started))
        lines = [
            f"{number} writes of {key}\n{_indented(self._last_changes(key))}"
            for key, number in write_counts.most_common(SHOWN_REVISIONS)
        ]
        raise AssertionError(
            f"the server has not converged within {within:g} s: there was no pause of {quiet:g} s "
            "between writes\n" + "\n".join(lines)
        )

    async def _next_write(self, count: int, deadline: float) -> bool:
        """Return True when an object was written after the first `count` writes, False at the
        deadline."""
        while self.journal.count <= count:
            if not await self.activity.wait(deadline):
                return False
        return True

    def _last_changes(self, key: str) -> str:
        server = self.server
        resource = server.scheme.resource_at(key[len(server.config.key_root) + 1 :])
        if resource is None:
            return ""
        entries = self.journal.of_key(key)[-2:]
        return "\n".join(str(revision_of(server, resource, entry)) for entry in entries)


def assert_no_hot_loop(records: Sequence[RequestRecord], *, requests: int, within: float) -> None:
    """Raise AssertionError if one client sent more than `requests` requests with the same verb for
    the same object within so many seconds of the server's clock."""
    by_target: dict[tuple[str, ...], list[RequestRecord]] = {}
    for record in records:
        key = (record.user, record.user_agent, record.verb, record.target)
        by_target.setdefault(key, []).append(record)
    for (user, user_agent, verb, target), sent in by_target.items():
        for first, last in zip(sent, sent[requests:], strict=False):
            if last.time - first.time <= within:
                raise AssertionError(
                    f"hot loop: {user} ({user_agent}) sent {verb} {target} "
                    f"{requests + 1} times within {last.time - first.time:.3g} s "
                    f"({len(sent)} in all)\n{_compare_last(sent)}"
                )


def _compare_last(sent: Sequence[RequestRecord]) -> str:
    """Return the last two requests and what differs between their bodies."""
    if len(sent) == 1:
        return _indented(str(sent[0]))
    before, after = sent[-2:]
    lines = [str(before), str(after)]
    if isinstance(before.body, dict) and isinstance(after.body, dict):
        differences = [str(change) for change in changes(before.body, after.body)]
        lines += ["their bodies differ:", *differences] if differences else ["with the same body"]
    return _indented("\n".join(lines))


def _yaml(obj: Tree) -> str:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return yaml.encode_value(obj | {"metadata": metadata}).decode().rstrip()


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
