"""Merging OpenAPI v2 documents."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kapiserver.apiserver.aggregation.spec_merge import filtered_spec, merge_spec

KINDS = "x-kubernetes-group-version-kind"


def ref(name: str, part: str = "definitions") -> Any:
    return {"$ref": f"#/{part}/{name}"}


def kind(group: str) -> Any:
    return {"group": group, "version": "v1", "kind": "K"}


def test_filter() -> None:
    """Only paths below the prefix stay, with what they use, directly and through others."""
    spec = {
        "paths": {"/apis/a/v1/x": {"get": ref("X"), "parameters": [ref("p", "parameters")]},
                  "/apis/b/v1/y": ref("Y")},
        "definitions": {"X": {"items": ref("Z")}, "Y": {}, "Z": {"self": ref("Z")}, "U": {}},
        "parameters": {"p": {}, "q": {}},
        "info": {},
    }  # fmt: skip
    assert filtered_spec(spec, "/apis/a/v1/") == {
        "paths": {"/apis/a/v1/x": spec["paths"]["/apis/a/v1/x"]},
        "definitions": {"X": {"items": ref("Z")}, "Z": {"self": ref("Z")}},
        "parameters": {"p": {}},
    }


def test_conflicts() -> None:
    """A definition or parameter that differs gets a free name; one that differs in its kinds only
    gets those of both; paths of the host stay."""
    host = {
        "paths": {"/a": ref("A")},
        "definitions": {"A": {"type": "object"}, "B": {KINDS: [kind("b")]}, "A_v2": {"n": 2}},
        "parameters": {"p": {"in": "query"}},
    }
    theirs = {
        "paths": {"/a": ref("Other"), "/b": [ref("A"), ref("B"), ref("p", "parameters")]},
        "definitions": {"A": {"n": 3}, "B": {KINDS: [kind("a")]}, "Other": {}},
        "parameters": {"p": {"in": "path"}},
    }
    before = copy.deepcopy((host, theirs))
    merged = dict(host)
    merge_spec(merged, theirs)
    assert merged == {
        "paths": {"/a": ref("A"), "/b": [ref("A_v3"), ref("B"), ref("p_v2", "parameters")]},
        "definitions": {
            "A": {"type": "object"},
            "A_v2": {"n": 2},
            "A_v3": {"n": 3},
            "B": {KINDS: [kind("a"), kind("b")]},
        },
        "parameters": {"p": {"in": "query"}, "p_v2": {"in": "path"}},
    }
    assert (host, theirs) == before


def test_a_renamed_definition_is_used_again() -> None:
    """A second document with the same definition uses the new name, too."""
    merged = {"paths": {}, "definitions": {"A": {"n": 1}}, "parameters": {}}
    for path in ("/b", "/c"):
        merge_spec(merged, {"paths": {path: ref("A")}, "definitions": {"A": {"n": 2}}})
    assert merged["paths"] == {"/b": ref("A_v2"), "/c": ref("A_v2")}
    assert merged["definitions"] == {"A": {"n": 1}, "A_v2": {"n": 2}}


_names = st.sampled_from(("A", "B", "A_v2", "A_v3"))
_definitions = st.dictionaries(_names, st.integers(0, 2).map(lambda number: {"n": number}))
_specs = st.builds(
    lambda paths, definitions: {
        "paths": {path: ref(name) for path, name in paths.items() if name in definitions},
        "definitions": definitions,
        "parameters": {},
    },
    st.dictionaries(st.sampled_from(("/a", "/b", "/c", "/d")), _names),
    _definitions,
)


@given(host=_specs, others=st.lists(_specs, max_size=3))
def test_each_path_keeps_its_meaning(host: Any, others: Any) -> None:
    """Whatever is merged, each path refers to what it referred to in the first document with it."""
    meanings: dict[str, Any] = {}
    for spec in (host, *others):
        for path, reference in spec["paths"].items():
            name = reference["$ref"].rpartition("/")[2]
            meanings.setdefault(path, spec["definitions"][name])
    merged = dict(host)
    for spec in others:
        merge_spec(merged, filtered_spec(spec, "/"))
    assert {
        path: merged["definitions"][reference["$ref"].rpartition("/")[2]]
        for path, reference in merged["paths"].items()
    } == meanings
