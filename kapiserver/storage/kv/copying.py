"""Copies all objects of one store to another, of any backend, and compares the two.

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

from kapiserver.storage.errors import Corrupt, KeyExists, Refused
from kapiserver.storage.kv.contract import KV, KeyValue, Revision

PAGE = 500
"""Keys that are read, and written, at once."""
_CLUSTERS = "clusters/*/"
"""How the resource of an object of a logical cluster begins."""
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

    root            the beginning of the keys of the server's objects, without a slash at its end
    clusters_root   that of the keys of logical clusters; the next segment names the cluster
    ttls            seconds to live of the objects of a resource
    skipped         prefixes of the keys that belong to running servers, and are not copied
    now             the present, in seconds since the epoch
    """

    root: str
    clusters_root: str
    ttls: Mapping[str, int] = {}
    skipped: tuple[str, ...] = ()
    now: float

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of all keys: one if those of logical clusters are below the root."""
        prefix, clusters_prefix = f"{self.root}/", f"{self.clusters_root}/"
        return (prefix,) if clusters_prefix.startswith(prefix) else (prefix, clusters_prefix)

    def ttl(self, key: str) -> int:
        """Return the seconds that a key lives, 0 for ever."""
        return self.ttls.get(self.resource(key).removeprefix(_CLUSTERS), 0)

    def resource(self, key: str) -> str:
        """Return the resource of a key: `pods`, `example.com/databases`, or `clusters/*/pods` for
        the pods of all logical clusters."""
        prefix, clusters_prefix = f"{self.root}/", f"{self.clusters_root}/"
        if not key.startswith(clusters_prefix):
            return _first_segments(key.removeprefix(prefix))
        cluster, _, rest = key.removeprefix(clusters_prefix).partition("/")
        if "/" in rest:
            return _CLUSTERS + _first_segments(rest)
        return f"clusters/{cluster}"  # what all clusters share, such as templates


def _first_segments(key: str) -> str:
    first, *segments = key.split("/")
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
    CopyRefused if the source has no keys or the target holds other objects, StorageError."""
    revision = await source.current_revision()
    total = await _count(source, plan, revision)
    if not total:
        raise CopyRefused(
            f"the source has no keys below {plan.root}: check its address, --etcd-prefix and "
            "--postgresql-schema"
        )
    keeps_revisions = isinstance(target, KeepsRevisions)
    if isinstance(target, KeepsRevisions) and not await target.begin_load(revision):
        raise CopyRefused(
            "the target is not empty, and holds no part of a copy of this source: choose another "
            "one, or empty it"
        )
    copied = 0
    async for items in _pages("source", source, plan, revision):
        expires = [plan.now + ttl if (ttl := plan.ttl(item.key)) else 0.0 for item in items]
        if isinstance(target, KeepsRevisions):
            await target.load(items, expires)
        else:
            await asyncio.gather(*(_create(target, item, plan.ttl(item.key)) for item in items))
        copied += len(items)
        progress("copying", copied, total)
    comparisons = await _compare(source, target, plan, revision, total, progress)
    return Copy(revision=revision, keeps_revisions=keeps_revisions, comparisons=comparisons)


async def _count(kv: KV, plan: Plan, revision: Revision) -> int:
    """Return the number of keys at a revision."""
    pages = [await kv.range(prefix, limit=1, revision=revision) for prefix in plan.prefixes]
    return sum(len(page.items) + page.remaining for page in pages)


async def _pages(
    name: str, kv: KV, plan: Plan, revision: Revision
) -> AsyncIterator[Sequence[KeyValue]]:
    """Yield all pairs of a store at a revision, in pages. `name` is what errors call the store."""
    for prefix in plan.prefixes:
        start, remaining = "", 1
        while remaining:
            try:
                page = await kv.range(prefix, start=start, limit=PAGE, revision=revision)
            except Corrupt as error:
                raise Corrupt(f"the {name} is damaged: {error}") from error
            yield [item for item in page.items if not item.key.startswith(plan.skipped)]
            if page.items:
                start = f"{page.items[-1].key}\0"
            remaining = page.remaining


async def _create(target: KV, item: KeyValue, ttl: int) -> None:
    try:
        await target.create(item.key, item.value, ttl=ttl)
    except KeyExists as error:
        stored = (await target.get(item.key)).item
        if stored is None or stored.value != item.value:
            raise CopyRefused(
                f"the target has another value of {item.key}: choose another target, or empty it"
            ) from error


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
        async for items in _pages(name, kv, plan, at):
            for item in items:
                resource = plan.resource(item.key)
                comparison = resources.setdefault(resource, Comparison(resource=resource))
                number, checksum = getattr(comparison, name)
                checksum = crc32(item.value, crc32(item.key.encode(errors="replace"), checksum))
                setattr(comparison, name, (number + 1, checksum))
            compared += len(items)
            progress(f"comparing the {name}", compared, total)
    return [resources[resource] for resource in sorted(resources)]
