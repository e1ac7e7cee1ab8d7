"""Events as the watchers of a selection see them."""

from __future__ import annotations

from typing import NamedTuple

from kapiserver.api.selectors import Selection
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.query import EventType
from kapiserver.storage.cache.watch_cache import CachedEvent


class VisibleEvent(NamedTuple):
    """An event as the watchers of one selection see it."""

    kind: EventType
    entry: Entry


def visible_event(event: CachedEvent, selection: Selection) -> VisibleEvent | None:
    """Return an event as a selection sees it, or None: an object that starts to match is ADDED,
    one that stops matching is DELETED."""
    new, old = event.entry, event.previous
    if not selection.selects_everything:
        if new is not None and not new.is_selected(selection):
            new = None
        if old is not None and not old.is_selected(selection):
            old = None
    if new is not None:
        return VisibleEvent("ADDED" if old is None else "MODIFIED", new)
    return None if old is None else VisibleEvent("DELETED", event.deleted_entry)
