"""The index of watchers' groups by the equality terms of their selections."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.selectors import Selection, parse
from kapiserver.storage.cache.entry import Selectable
from kapiserver.storage.cache.group_index import GroupIndex
from kapiserver.storage.errors import Unreadable

VALUES = ("", "a", "b")
_LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(VALUES))
_FIELDS = st.dictionaries(
    st.sampled_from(("spec.nodeName", "status.phase")), st.sampled_from(VALUES)
)
_LABEL_TEXTS = st.sampled_from(
    ("", "app=a", "app", "!app", "app!=a", "app in (a,b)", "app notin (a)", "tier=b,app=a", "app=")
)
_FIELD_TEXTS = st.sampled_from(
    ("", "spec.nodeName=a", "status.phase!=a,spec.nodeName=", "status.phase=b")
)


class Group:
    """A group of watchers, reduced to what the index reads."""

    def __init__(self, identity: int, selection: Selection) -> None:
        self.identity, self.selection = identity, selection


class Object:
    """An entry, reduced to what the index reads."""

    def __init__(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> None:
        self.selectable = Selectable(labels, fields)
        self.has_selectable, self.is_large = True, False


def _selections() -> st.SearchStrategy[list[Selection]]:
    return st.lists(st.builds(parse, _LABEL_TEXTS, _FIELD_TEXTS), max_size=12)


@given(_selections(), st.lists(st.builds(Object, _LABELS, _FIELDS), min_size=2, max_size=2))
def test_concerned_groups(selections, objects):
    """Each group that selects the object before or after the change is found, none twice, and of
    those with an equality term no other."""
    index = GroupIndex()
    groups = [index.join(Group(number, item)) for number, item in enumerate(selections)]
    found = list(index.groups_of(SimpleNamespace(entry=objects[0], previous=objects[1])))
    assert len(found) == len(set(found))
    for group in groups:
        selection = group.selection
        selected = any(selection.matches(*item.selectable) for item in objects)
        assert not selected or group in found
    for group in groups:
        index.remove(group)
    assert not index
    assert vars(index) == vars(GroupIndex())


@pytest.mark.parametrize(
    ("labels", "fields", "count"),
    [({"app": "v7"}, {}, 2), ({"app": "other"}, {}, 1), ({}, {"spec.nodeName": "n3"}, 2)],
)
def test_few_of_many(labels, fields, count):
    """An event concerns the groups of its values, and those without an equality term."""
    index = GroupIndex()
    texts = [(f"app=v{number}", "") for number in range(100)]
    texts += [("", f"spec.nodeName=n{number}") for number in range(100)]
    for number, (label_text, field_text) in enumerate([*texts, ("!x", "")]):
        index.join(Group(number, parse(label_text, field_text)))
    event = SimpleNamespace(entry=Object(labels, fields), previous=None)
    assert len(list(index.groups_of(event))) == count


def test_joining_twice():
    """A group joins the one that has its identity already."""
    index = GroupIndex()
    first = Group(1, parse("app=a", ""))
    assert index.join(first) is first
    assert index.join(Group(1, parse("app=a", ""))) is first
    index.remove(Group(1, parse("app=a", "")))
    assert list(index) == [first]


class Large(Object):
    """A large object whose labels are not decoded yet."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.has_selectable, self.is_large = False, True


class Damaged(Object):
    """An object whose value cannot be decoded."""

    def __init__(self) -> None:
        self.has_selectable, self.is_large = False, False

    @property
    def selectable(self) -> Selectable:
        raise Unreadable(ValueError("x"), key="/registry/x")


@pytest.mark.parametrize("entry", [Large(), Damaged()])
def test_unknown_labels(entry):
    """All groups are concerned if the labels of the object are not known at once."""
    index = GroupIndex()
    group = index.join(Group(1, parse("app=a", "")))
    assert list(index.groups_of(SimpleNamespace(entry=entry, previous=None))) == [group]
