"""Follows one resource of the host: lists it, then watches it, and starts again after a failure.

| state    | ends when                                         | next                   |
| -------- | ------------------------------------------------- | ---------------------- |
| listing  | all pages have arrived                            | watching               |
| listing  | the host refuses or does not answer               | waiting, then listing  |
| watching | the host ends the watch, or the connection breaks | waiting, then watching |
| watching | the host refuses, or an event cannot be used      | waiting, then listing  |

A watch begins at the version of the list, or of the last event.

The delay doubles from 1 to 30 seconds until something arrives. Mirrors Reflector of client-go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Protocol

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.http_client.session import StreamingClient
from kapiserver.codecs.cost import LARGE, cost_of
from kapiserver.codecs.errors import TooLarge
from kapiserver.codecs.framing import JSON_LINES
from kapiserver.extension.host_cluster import HostCluster, HostFailed
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock, wait

PAGE = 50
"""Objects of a page of a list."""
MAX_PAGE_BYTES = 96 << 20
LIST_SECONDS = 60.0
"""The time of a page."""
WATCH_SECONDS = 300
"""The shortest time of a watch; the longest is twice that."""
WATCH_GRACE_SECONDS = 30.0
"""How much longer than it should a watch may take, before its connection counts as dead."""
FIRST_DELAY, MAX_DELAY = 1.0, 30.0
_UNUSABLE = 422
"""The status in place of that of an event that is too long or malformed."""

_random = random.SystemRandom()
_log = logging.getLogger(__name__)


class Copies(Protocol):
    """Keeps copies of the objects of one resource."""

    async def replace(self, objects: Sequence[Tree]) -> None:
        """Keep these objects and no others."""

    async def put(self, obj: Tree) -> None:
        """Keep a new object, or a changed one."""

    async def remove(self, obj: Tree) -> None:
        """Forget an object."""


class Reflector:
    """Follows the resource at a path of the host, such as /api/v1/namespaces.

    synced  set once the copies have been complete; they may be old while the host does not answer
    """

    def __init__(
        self, host: HostCluster, path: str, copies: Copies, clock: Clock, offloader: Offloader
    ) -> None:
        self.synced = asyncio.Event()
        self._host = host
        self._path = path
        self._copies = copies
        self._clock = clock
        self._offloader = offloader
        self._version = ""
        """The resource version after which to watch; empty: list first."""
        self._delay = FIRST_DELAY
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the resource from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop following the resource. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            client = StreamingClient()
            try:
                if not self._version:
                    await self._list(client)
                await self._watch(client)
            except (HostFailed, TimeoutError) as error:
                if getattr(error, "status", 0):
                    self._version = ""
                is_first = self._delay == FIRST_DELAY
                level = logging.WARNING if is_first else logging.INFO
                text = str(error) or f"{self._path}: no answer"
                _log.log(level, "admission by the host cluster: %s; trying again", text)
            except Exception:
                self._version = ""
                _log.exception("admission by the host cluster: %s; trying again", self._path)
            finally:
                client.close()
            delay, self._delay = self._delay, min(self._delay * 2, MAX_DELAY)
            await wait(self._clock, delay * (1 + _random.random()))

    async def _list(self, client: StreamingClient) -> None:
        """Copy all objects. Raises HostFailed, TimeoutError."""
        items: list[Tree] = []
        token = ""
        while True:
            query = {"limit": str(PAGE), "continue": token}
            async with asyncio.timeout(LIST_SECONDS):
                data = await self._host.read(client, self._path, query, MAX_PAGE_BYTES)
            page = await self._decode(data)
            metadata = page.get("metadata") or {}
            kind, version = str(page.get("kind") or ""), page.get("apiVersion")
            for item in page.get("items") or ():
                items.append({"kind": kind.removesuffix("List"), "apiVersion": version, **item})
            token = metadata.get("continue") or ""
            if not token:
                break
        await self._copies.replace(items)
        self._version = str(metadata.get("resourceVersion") or "")
        self._delay = FIRST_DELAY
        self.synced.set()

    async def _watch(self, client: StreamingClient) -> None:
        """Copy changes until the watch ends. Raises HostFailed, TimeoutError."""
        seconds = int(WATCH_SECONDS * (1 + _random.random()))
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        reader = JSON_LINES.make_reader()
        async with (
            asyncio.timeout(seconds + WATCH_GRACE_SECONDS),
            aclosing(self._host.watch(client, self._path, query)) as pieces,
        ):
            try:
                async for piece in pieces:
                    for line in filter(bytes.strip, reader.feed(piece)):
                        await self._take(await self._decode(line))
            except TooLarge as error:
                raise HostFailed(f"{self._path}: {error}", _UNUSABLE) from None

    async def _take(self, event: Tree) -> None:
        """Apply one event. Raises HostFailed."""
        type_, obj = event.get("type"), event.get("object")
        if not isinstance(obj, dict):
            raise HostFailed(f"{self._path}: an event has no object", _UNUSABLE)
        if type_ == "ERROR":
            raise HostFailed(f"{self._path}: {obj.get('message')}", int(obj.get("code") or 500))
        if type_ in ("ADDED", "MODIFIED"):
            await self._copies.put(obj)
        elif type_ == "DELETED":
            await self._copies.remove(obj)
        self._version = str((obj.get("metadata") or {}).get("resourceVersion") or "")
        self._delay = FIRST_DELAY

    async def _decode(self, data: bytes) -> Tree:
        """Return the object that JSON text has, decoded in a thread if that takes long. Raises
        HostFailed."""
        try:
            value: Any
            if cost_of(data) >= LARGE:
                value = await self._offloader.run_in_thread(orjson.loads, data, limited=False)
            else:
                value = orjson.loads(data)
        except ValueError as error:
            raise HostFailed(f"{self._path}: {error}", _UNUSABLE) from None
        if not isinstance(value, dict):
            raise HostFailed(f"{self._path}: not an object", _UNUSABLE)
        return value
