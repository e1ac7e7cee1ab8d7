"""Entries in the order of their keys, which readers share until they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.sorted_entries import SortedEntries
from kapiserver.storage.kv.contract import Revision

PATHS = ("/a/n/x", "/a/n/y", "/a/n-2/x", "/a/n0/x", "/b/n/x")
SCOPES = ("/", "/a/", "/a/n/", "/b/", "/c/", "/a/n/x", "/a/n/z", *PATHS)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "remove", "read")),
        st.sampled_from(PATHS),
        st.sampled_from(SCOPES),
        st.sampled_from(("", *PATHS)),
    ),
    max_size=30,
)


def entry_at(path: str, revision: int = 1) -> Entry:
    return Entry(object(), path, b"", Revision(revision))  # type: ignore[arg-type]


def is_in(path: str, scope: str) -> bool:
    return path.startswith(scope) if scope.endswith("/") else path == scope


@given(_STEPS)
def test_readers_keep_what_they_have_read(steps: list[tuple[str, str, str, str]]) -> None:
    """Each read returns the entries of its scope from a key on, and no later change alters it."""
    entries = SortedEntries()
    by_path: dict[str, Entry] = {}
    reads = []
    for number, (step, path, scope, start) in enumerate(steps):
        if step == "put":
            entry = entry_at(path, number)
            (entries.replace if path in by_path else entries.add)(entry)
            by_path[path] = entry
        elif step == "remove" and path in by_path:
            entries.remove(path)
            del by_path[path]
        elif step == "read":
            in_scope = [each for each in sorted(by_path) if is_in(each, scope)]
            expected = [by_path[each] for each in in_scope if each >= start]
            reads.append((entries.in_scope(scope, start), expected))
            assert entries.count_in(scope) == len(in_scope)
        assert len(entries) == len(by_path)
    for read, expected in reads:
        assert list(read) == expected


def test_lists_of_everything_are_shared() -> None:
    """Readers of all entries have one list, which is copied at the first change, once."""
    entries = SortedEntries([entry_at(path) for path in sorted(PATHS)])
    first = entries.in_scope("/a/")
    assert entries.in_scope("/") is entries.all() is entries.in_scope("/", "/a")
    assert first is not entries.all()
    before = entries.all()
    entries.remove(PATHS[0])
    after = entries.in_scope("/a/n/")
    entries.remove(PATHS[1])
    assert [len(before), len(after), len(entries)] == [5, 1, 3]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (4, 4), (16, 5)])
def test_sample(count: int, size: int) -> None:
    """A sample has entries from everywhere."""
    entries = SortedEntries([entry_at(path) for path in sorted(PATHS)])
    assert len(entries.sample(count)) == size
