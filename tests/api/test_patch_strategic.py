"""Strategic merge patch: a table of cases over a small declared type."""

import copy
from typing import Any

import pytest

from kapiserver.api.errors import BadObject, PatchFailed
from kapiserver.api.patches import strategic_merge_patch
from kapiserver.api.types import Type, field, int32


class Port(Type):
    number: int32 = field(1)
    protocol: str = field(2)


class Item(Type):
    name: str = field(1)
    value: str = field(2)
    ports: list[Port] = field(3, merge="number")
    args: list[str] = field(4)
    tags: list[str] = field(5, merge="")


class Strategy(Type):
    type: str = field(1)
    rolling: Item = field(2)


class Thing(Type):
    items: list[Item] = field(1, merge="name", patch="retainKeys")
    tags: list[str] = field(2, merge="")
    args: list[str] = field(3)
    labels: dict[str, str] = field(4)
    strategy: Strategy = field(5, patch="retainKeys")
    whole: Item = field(6, patch="replace")
    free: Any = field(7)
    simple: list[Item] = field(8)


def items(*names):
    return [{"name": name, "value": name.upper()} for name in names]


MERGES = {
    "scalars and nulls": (
        {"labels": {"a": "1", "b": "2"}, "args": ["x"]},
        {"labels": {"a": None, "c": "3", "d": None}, "args": ["y"]},
        {"labels": {"b": "2", "c": "3"}, "args": ["y"]},
    ),
    "null deletes a list": ({"args": ["x"], "tags": ["y"]}, {"args": None}, {"tags": ["y"]}),
    "new object without nulls": (
        {},
        {"strategy": {"type": "R", "rolling": None}},
        {"strategy": {"type": "R"}},
    ),
    "list merged by key, new items in front": (
        {"items": items("a", "b")},
        {"items": [{"name": "c", "value": "C"}, {"name": "b", "value": "x"}]},
        {"items": [{"name": "c", "value": "C"}, {"name": "a", "value": "A"},
                   {"name": "b", "value": "x"}]},
    ),
    "nested lists merged by key": (
        {"items": [{"name": "a", "ports": [{"number": 1, "protocol": "TCP"}]}]},
        {"items": [{"name": "a", "ports": [{"number": 1, "protocol": "UDP"}, {"number": 2}]}]},
        {"items": [{"name": "a", "ports": [{"number": 1, "protocol": "UDP"}, {"number": 2}]}]},
    ),
    "item deleted": (
        {"items": items("a", "b")},
        {"items": [{"name": "a", "$patch": "delete"}]},
        {"items": items("b")},
    ),
    "item that is not there deleted": (
        {"items": items("a")},
        {"items": [{"name": "z", "$patch": "delete"}]},
        {"items": items("a")},
    ),
    "list replaced": (
        {"items": items("a", "b")},
        {"items": [{"$patch": "replace"}, {"name": "c"}]},
        {"items": [{"name": "c"}]},
    ),
    "list emptied": ({"items": items("a")}, {"items": [{"$patch": "replace"}]}, {"items": []}),
    "list without strategy is replaced": (
        {"simple": items("a", "b")}, {"simple": items("c")}, {"simple": items("c")},
    ),
    "map replaced": (
        {"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}},
        {"labels": {"b": "2"}},
    ),
    "map deleted": (
        {"strategy": {"type": "R"}}, {"strategy": {"$patch": "delete"}}, {"strategy": {}},
    ),
    "replace strategy": (
        {"whole": {"name": "a", "value": "A"}}, {"whole": {"name": "b"}},
        {"whole": {"name": "b"}},
    ),
    "retained keys": (
        {"strategy": {"type": "R", "rolling": {"name": "x"}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "retained keys of an item": (
        {"items": items("a")},
        {"items": [{"name": "a", "$retainKeys": ["name", "args"], "args": ["x"]}]},
        {"items": [{"name": "a", "args": ["x"]}]},
    ),
    "scalars merged": (
        {"tags": ["a", "b"]}, {"tags": ["b", "c"]}, {"tags": ["a", "b", "c"]},
    ),
    "scalars deleted": (
        {"tags": ["a", "b", "c"]}, {"$deleteFromPrimitiveList/tags": ["a", "z"]},
        {"tags": ["b", "c"]},
    ),
    "scalars deleted from nothing": ({}, {"$deleteFromPrimitiveList/tags": ["a"]}, {}),
    "element order of scalars": (
        {"tags": ["a", "b", "c"]},
        {"$setElementOrder/tags": ["c", "d", "a"], "tags": ["d"]},
        {"tags": ["b", "c", "d", "a"]},
    ),
    "element order of objects": (
        {"items": items("a", "b", "c")},
        {"$setElementOrder/items": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
        {"items": items("c", "b", "a")},
    ),
    "element order with a change and a deletion": (
        {"items": items("a", "b", "c")},
        {"$setElementOrder/items": [{"name": "c"}, {"name": "d"}, {"name": "a"}],
         "items": [{"name": "d", "value": "D"}, {"name": "b", "$patch": "delete"}]},
        {"items": items("c", "d", "a")},
    ),
    "element order keeps what only the server has": (
        {"items": items("a", "x", "b")},
        {"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]},
        {"items": items("x", "b", "a")},
    ),
    "element order of a new list": (
        {},
        {"$setElementOrder/items": [{"name": "b"}, {"name": "a"}], "items": items("b", "a")},
        {"items": items("b", "a")},
    ),
    "element order of nothing": ({}, {"$setElementOrder/items": [{"name": "a"}]}, {}),
    "free objects are merged, their lists replaced": (
        {"free": {"a": [1], "b": {"c": 1}}}, {"free": {"a": [2], "b": {"d": 2}}},
        {"free": {"a": [2], "b": {"c": 1, "d": 2}}},
    ),
    "directives in new values are dropped": (
        {},
        {"items": [{"name": "a", "$patch": "delete"}, {"name": "b", "$retainKeys": ["name"]}]},
        {"items": [{"name": "b"}]},
    ),
    "unknown fields stay for the decoder to judge": ({}, {"what": [1]}, {"what": [1]}),
    "another type wins": ({"labels": {"a": "1"}}, {"labels": "x"}, {"labels": "x"}),
}  # fmt: skip


@pytest.mark.parametrize(("target", "patch", "expected"), MERGES.values(), ids=MERGES)
def test_merges(target, patch, expected):
    """A patch merges as in kube-apiserver and changes no argument."""
    before = copy.deepcopy((target, patch))
    assert strategic_merge_patch.apply(target, strategic_merge_patch.read(patch), Thing) == expected
    assert (target, patch) == before


NONSENSE = {
    "no merge key": (
        {"items": [{"value": "x"}]},
        "map: map[value:x] does not contain declared merge key: name",
    ),
    "no merge key in a deletion": (
        {"items": [{"$patch": "delete"}]},
        "map: map[$patch:delete] does not contain declared merge key: name",
    ),
    "unknown directive": (
        {"labels": {"$patch": "explode"}},
        "unknown patch type: explode in map: map[$patch:explode]",
    ),
    "unknown directive of an item": (
        {"items": [{"$patch": 1, "name": "a"}]},
        "unknown patch type: 1 in map: map[$patch:1 name:a]",
    ),
    "lists are not merged by a directive": (
        {"items": [{"$patch": "merge", "name": "a"}]},
        "merging lists cannot yet be specified in the patch",
    ),
    "retainKeys is no list": (
        {"strategy": {"$retainKeys": "type"}}, "invalid patch format of retainKeys",
    ),
    "retainKeys misses a field": (
        {"strategy": {"$retainKeys": ["type"], "rolling": {"name": "x"}}},
        "invalid patch format of retainKeys",
    ),
    "order is no list": (
        {"$setElementOrder/items": {}},
        "expected a []interface {}, but received a map[string]interface {}",
    ),
    "order does not match": (
        {"$setElementOrder/tags": ["a", "b"], "tags": ["b", "a"]},
        "The order in patch list:\n[b a]\n doesn't match $setElementOrder list:\n[a b]\n",
    ),
    "mixed items": (
        {"items": [{"name": "a"}, "b"]},
        "list element types are not identical: [[map[name:a value:A]] [map[name:a] b]]",
    ),
    "merge key is an object": (
        {"items": [{"name": {}}]}, "map[] cannot be compared as a merge key",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("patch", "message"), NONSENSE.values(), ids=NONSENSE)
def test_refuses(patch, message):
    """A malformed patch is refused with kube-apiserver's message."""
    target = {"items": items("a"), "tags": ["a"], "labels": {"a": "1"}, "strategy": {"type": "R"}}
    with pytest.raises(BadObject) as caught:
        strategic_merge_patch.apply(target, patch, Thing)
    assert str(caught.value) == message


def test_lists_of_lists():
    """Lists of lists do not merge."""
    with pytest.raises(PatchFailed, match="lists of lists are not supported"):
        strategic_merge_patch.apply({"tags": ["a"]}, {"tags": [["b"]]}, Thing)


def test_only_objects_are_patches():
    """A body that is not an object is refused with the decoder's message."""
    with pytest.raises(BadObject) as caught:
        strategic_merge_patch.read([1])
    assert str(caught.value) == (
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    )
