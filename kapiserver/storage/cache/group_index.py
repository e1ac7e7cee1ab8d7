"""The groups of watchers of one scope, by what their selections require.

An event concerns few of a thousand watchers that select a label value each. A selection that
requires a label or a field to have one of some values is therefore found by that value, and not
tried on each event. The index finds at least the groups that an event concerns: their selections
decide.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from kapiserver.api.selectors import EqualityTerm, Selection
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.watch_cache import CachedEvent
from kapiserver.storage.errors import Corrupt


class SelectingGroup(Protocol):
    """A group of watchers with one selection."""

    selection: Selection
    identity: Hashable


Group = TypeVar("Group", bound=SelectingGroup)


class GroupIndex(Generic[Group]):
    """Groups by identity, and by the term that their selections require."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, Group] = {}
        self._unindexed: dict[Group, None] = {}
        """Groups whose selections require no value."""
        self._by_term: dict[tuple[str, str], dict[str, dict[Group, None]]] = {}
        """The other groups, by the kind and name of their term, and by its values."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def join(self, group: Group) -> Group:
        """Add a group, and return it, or the group that has its identity already."""
        known_group = self._groups.setdefault(group.identity, group)
        if known_group is group:
            term = group.selection.equality_term
            if term is None:
                self._unindexed[group] = None
            else:
                by_value = self._by_term.setdefault((term.kind, term.name), {})
                for value in term.values:
                    by_value.setdefault(value, {})[group] = None
        return known_group

    def remove(self, group: Group) -> None:
        """Remove a group, if it is known."""
        if self._groups.get(group.identity) is not group:
            return
        del self._groups[group.identity]
        self._unindexed.pop(group, None)
        term = group.selection.equality_term
        if term is not None:
            self._remove_values(group, term)

    def _remove_values(self, group: Group, term: EqualityTerm) -> None:
        by_value = self._by_term[term.kind, term.name]
        for value in term.values:
            del by_value[value][group]
            if not by_value[value]:
                del by_value[value]
        if not by_value:
            del self._by_term[term.kind, term.name]

    def groups_of(self, event: CachedEvent) -> Iterator[Group]:
        """Return the groups whose selections may match the object before or after a change, each
        once. If that cannot be told in a moment, these are all groups."""
        if not self._by_term:
            return iter(self._groups.values())
        groups = dict(self._unindexed)
        try:
            for entry in (event.entry, event.previous):
                if entry is None:
                    continue
                if entry.is_large and not entry.has_selectable:
                    return iter(self._groups.values())
                self._add_indexed(entry, groups)
        except Corrupt:
            return iter(self._groups.values())  # the delivery to each group reports it
        return iter(groups)

    def _add_indexed(self, entry: Entry, groups: dict[Group, None]) -> None:
        labels, fields = entry.selectable
        for (kind, name), by_value in self._by_term.items():
            value = labels.get(name) if kind == "label" else fields.get(name, "")
            if value is not None and value in by_value:
                groups |= by_value[value]
