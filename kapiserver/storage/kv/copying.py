"""Copies all keys of one store to another, of any backend, and compares the two.

The copy has the source's newest revision and the revision of each object, if the backend of the
target can begin at a revision (`KeepsRevisions`): then clients go on with the versions that they
know. An interrupted copy continues when it is repeated. History is not copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable
from zlib import crc32

from msgspec import Struct

from kapiserver.storage.errors import KeyExists, Refused
from kapiserver.storage.kv.contract import KV, KeyValue, Revision

PAGE = 500
"""Keys that are read, and written, at once."""
Progress = Callable[[str, int, int], None]
"""Receives the current step, how much of it is done, and its total."""


class CopyRefused(Refused):
    """The target holds other objects."""


@runtime_checkable
class KeepsRevisions(Protocol):
    """A store that an empty store can be filled with objects at the revisions of another."""

    async def begin_load(self, revision: Revision) -> bool:
        """Make an empty store begin at a revision, below which its history counts as compacted.
        Returns False if the store is not empty; a load at this revision that was interrupted may be
        continued."""

    async def load(self, items: Sequence[KeyValue], expires: Sequence[float]) -> None:
        """Add pairs at their revisions, which expire at these seconds since the epoch (0: never).
        Those that exist already are left as they are."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is copied.

    root     the beginning of all keys, without a slash at its end
    ttls     seconds to live of the keys below a prefix
    skipped  prefixes of the keys that belong to running servers, and are not copied
    now      the present, in seconds since the epoch
    """

    root: str
    ttls: Mapping[str, int] = {}
    skipped: Sequence[str] = ()
    now: float

    def ttl(self, key: str) -> int:
        """Return the seconds that a key lives, 0 for ever."""
        return next((ttl for prefix, ttl in self.ttls.items() if key.startswith(prefix)), 0)

    def resource(self, key: str) -> str:
        """Return the resource of a key: `pods`, or `example.com/databases`."""
        first, *segments = key.removeprefix(f"{self.root}/").split("/")
        return f"{first}/{segments[0]}" if "." in first and segments else first


class Comparison(Struct, kw_only=True):
    """One resource in both stores: the number of its objects, and a checksum of their keys and
    values in order."""

    resource: str
    source: tuple[int, int] = (0, 0)
    target: tuple[int, int] = (0, 0)

    @property
    def is_equal(self) -> bool:
        """Whether both stores hold the same objects."""
        return self.source == self.target


class Copy(Struct, frozen=True, kw_only=True):
    """The result of a copy.

    revision         the revision of the source that was copied
    keeps_revisions  whether the objects have their revisions in the target
    comparisons      each resource of either store, by name
    """

    revision: Revision
    keeps_revisions: bool
    comparisons: Sequence[Comparison]


async def copy(source: KV, target: KV, plan: Plan, progress: Progress) -> Copy:
    """Copy all keys of a source that nobody writes to an empty target, or continue to do so. Raises
    CopyRefused if the target holds other objects, StorageError."""
    first = await source.range(f"{plan.root}/", limit=1)
    total = len(first.items) + first.remaining
    keeps_revisions = isinstance(target, KeepsRevisions)
    if isinstance(target, KeepsRevisions) and not await target.begin_load(first.revision):
        raise CopyRefused("the target is not empty")
    copied = 0
    async for items in _pages(source, plan, first.revision):
        expires = [plan.now + ttl if (ttl := plan.ttl(item.key)) else 0.0 for item in items]
        if isinstance(target, KeepsRevisions):
            await target.load(items, expires)
        else:
            await asyncio.gather(*(_create(target, item, plan.ttl(item.key)) for item in items))
        copied += len(items)
        progress("copying", copied, total)
    comparisons = await _compare(source, target, plan, first.revision, total, progress)
    return Copy(revision=first.revision, keeps_revisions=keeps_revisions, comparisons=comparisons)


async def _pages(kv: KV, plan: Plan, revision: Revision) -> AsyncIterator[Sequence[KeyValue]]:
    """Yield all pairs at a revision, in pages."""
    start = ""
    while True:
        page = await kv.range(f"{plan.root}/", start=start, limit=PAGE, revision=revision)
        yield [item for item in page.items if not item.key.startswith(tuple(plan.skipped))]
        if not page.remaining:
            return
        start = f"{page.items[-1].key}\0"


async def _create(target: KV, item: KeyValue, ttl: int) -> None:
    try:
        await target.create(item.key, item.value, ttl=ttl)
    except KeyExists as error:
        stored = (await target.get(item.key)).item
        if stored is None or stored.value != item.value:
            raise CopyRefused(f"the target has another value of {item.key}") from error


async def _compare(
    source: KV, target: KV, plan: Plan, revision: Revision, total: int, progress: Progress
) -> list[Comparison]:
    """Compare both stores by resource."""
    resources: dict[str, Comparison] = {}
    for name, kv, at in (
        ("source", source, revision),
        ("target", target, await target.current_revision()),
    ):
        compared = 0
        async for items in _pages(kv, plan, at):
            for item in items:
                resource = plan.resource(item.key)
                comparison = resources.setdefault(resource, Comparison(resource=resource))
                number, checksum = getattr(comparison, name)
                checksum = crc32(item.value, crc32(item.key.encode(errors="replace"), checksum))
                setattr(comparison, name, (number + 1, checksum))
            compared += len(items)
            progress(f"comparing the {name}", compared, total)
    return [resources[resource] for resource in sorted(resources)]
