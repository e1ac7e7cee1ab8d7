"""What every object says of its owners and its end, kept up to date by one watch of the store.

One watch for all resources instead of a cache for each: controllers that care for everything
(garbage collection, the end of namespaces) need no more than this of an object, and most objects
say nothing. Knows no controller.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import Compacted, Corrupt, Unavailable, Undecryptable
from kapiserver.storage.kv import KV, KVEvent, Revision, Watch
from kapiserver.storage.object_codec import ObjectCodec
from kapiserver.storage.time_slice import TimeSlice

PAGE = 250
"""Keys read at once when the feed begins."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMetadata:
    """One object. `path` is its key in the store, which says its name too."""

    resource: Resource
    path: str
    uid: str
    owners: tuple[Tree, ...] = ()
    finalizers: tuple[str, ...] = ()
    terminating: bool = False

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        above, _, name = self.path.rpartition("/")
        return ObjectKey(above.rpartition("/")[2] if self.resource.namespaced else "", name)


class MetadataHandler(Protocol):
    """Takes what the feed sees; must not block and must not raise."""

    def on_reset(self) -> None:
        """Forget everything: all objects there are follow."""

    def on_upsert(self, seen: ObjectMetadata) -> None:
        """An object is there, or changed."""

    def on_delete(self, seen: ObjectMetadata) -> None:
        """An object is there no more; this is what it said last."""


CodecForKey: TypeAlias = Callable[[str], ObjectCodec | None]


def _shared(owners: Sequence[Tree]) -> tuple[Tree, ...]:
    """The same owners, which many objects have, kept once."""
    return _kept(tuple(tuple(one.items()) for one in owners)) if owners else ()


@functools.lru_cache(maxsize=1024)
def _kept(owners: tuple[tuple[tuple[str, Any], ...], ...]) -> tuple[Tree, ...]:
    return tuple(dict(one) for one in owners)


class MetadataInformer:
    """Runs from `begin` until `stop`."""

    def __init__(self, kv: KV, prefix: str, codec_at: CodecForKey, reader: MetadataHandler) -> None:
        self._kv = kv
        self._prefix = prefix
        self._codec_at = codec_at
        self._handler = reader
        self._watch: Watch | None = None
        self._ended: Callable[[], None] = lambda: None

    async def start(self, ended: Callable[[], None]) -> None:
        """Read all objects, then follow them; `ended` is called when the watch breaks, and only
        then. Raises StorageError."""
        self._handler.on_reset()
        start = ""
        revision: Revision | None = None
        turn = TimeSlice()
        while True:
            page = await self._kv.range(self._prefix, start=start, limit=PAGE, revision=revision)
            revision = page.revision
            for item in page.items:
                await turn.yield_if_expired()
                self._put(item.key, item.value)
            if not page.remaining:
                break
            start = page.items[-1].key + "\0"
        self._ended = ended
        self._watch = self._kv.watch(self._prefix, after=revision, sink=self)

    def stop(self) -> None:
        """End it. Idempotent."""
        self._ended = lambda: None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _put(self, path: str, value: bytes) -> None:
        seen = self._read(path, value)
        if seen is not None:
            self._handler.on_upsert(seen)

    def _read(self, path: str, value: bytes) -> ObjectMetadata | None:
        codec = self._codec_at(path)
        if codec is None or not path.startswith(codec.prefix):
            return None
        try:
            metadata = codec.ownership_metadata(path, value)
        except (Corrupt, Undecryptable) as error:
            _log.warning("an object cannot be read, and is not looked after: %s", error)
            return None
        return ObjectMetadata(
            resource=codec.resource,
            path=path,
            uid=metadata.get("uid") or "",
            owners=_shared(metadata.get("ownerReferences") or ()),
            finalizers=tuple(metadata.get("finalizers") or ()),
            terminating=bool(metadata.get("deletionTimestamp")),
        )

    # The sink of the watch.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Changes, in order."""
        for event in batch:
            if event.value is not None:
                self._put(event.key, event.value)
            elif event.previous is not None:
                seen = self._read(event.key, event.previous)
                if seen is not None:
                    self._handler.on_delete(seen)

    def on_progress(self, revision: Revision) -> None:
        """Nothing happened."""

    def on_closed(self, error: Exception | None) -> None:
        """The watch is over."""
        self._watch = None
        if error is not None:
            if not isinstance(error, Compacted | Unavailable):
                _log.warning("the feed of objects ended: %s", error)
            self._ended()
