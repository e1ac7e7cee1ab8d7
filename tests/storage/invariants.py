"""Invariants that hold in every state of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from kapiserver.storage.errors import Compacted
from kapiserver.storage.kv.contract import KV, KVEvent, Revision


async def check_store(store: KV, start_revision: Revision) -> None:
    """Check the KV contract: pages add up to the range, gets agree with ranges, and the history
    since a revision leads from that revision's state to the current state."""
    oldest = await store.current_revision()
    all_items = await store.range("/")
    # Tests share an etcd, where a lease of another one may expire meanwhile.
    assert oldest <= all_items.revision <= await store.current_revision()
    keys = [item.key for item in all_items.items]
    assert keys == sorted(set(keys))
    assert all(item.revision <= all_items.revision for item in all_items.items)

    paged, start = [], ""
    while True:
        page = await store.range("/", start=start, limit=7, revision=all_items.revision)
        paged += page.items
        assert page.remaining == len(keys) - len(paged)
        if not page.remaining:
            break
        start = page.items[-1].key + "\0"
    assert paged == list(all_items.items)
    for item in all_items.items[:5]:
        assert (await store.get(item.key)).item == item

    try:
        past = await store.range("/", revision=start_revision)
    except Compacted:
        return
    state = {item.key: item.value for item in past.items}
    events: list[KVEvent] = []
    read = start_revision
    while read < all_items.revision:
        history = await store.history("/", read, all_items.revision, 100, previous=True)
        events += history.events
        assert history.until > read
        read = history.until
    last = start_revision
    for event in events:
        assert event.revision >= last
        last = event.revision
        assert event.previous == state.pop(event.key, None), event
        if event.value is not None:
            state[event.key] = event.value
    assert state == {item.key: item.value for item in all_items.items}


def check_file(path: Path) -> None:
    """Check the tables of an embedded store's file against each other; no store may have it
    open."""
    with closing(sqlite3.connect(path)) as sql:

        def rows(query: str, *values: object) -> list[Any]:
            return sql.execute(query, values).fetchall()

        assert rows("PRAGMA integrity_check") == [("ok",)]
        ((compacted,),) = rows("SELECT compacted FROM state")
        log = rows("SELECT revision, key, deleted, previous, value FROM log ORDER BY revision")
        keys = {row[0]: row[1] for row in log}
        live_revisions: dict[str, int] = {}
        for revision, key, deleted, previous, value in log:
            assert deleted == (value is None)
            if previous and revision > compacted:
                assert keys[previous] == key
                assert live_revisions[key] == previous
            if deleted:
                live_revisions.pop(key, None)
            else:
                live_revisions[key] = revision
            if revision < compacted:  # kept because it is current at the compacted revision
                assert not deleted
                later_write = "SELECT 1 FROM log WHERE key = ? AND revision > ? AND revision <= ?"
                assert not rows(later_write, key, revision, compacted)
        assert dict(rows("SELECT key, revision FROM current")) == live_revisions
