"""JSON merge patch (RFC 7396): the RFC's table of cases, and malformed patches."""

import pytest

from kapiserver.api.errors import BadObject
from kapiserver.api.patches import merge_patch

CASES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), CASES)
def test_applies(target, patch, expected):
    """A patch follows RFC 7396 and changes no argument."""
    before = repr((target, patch))
    assert merge_patch.apply(target, patch) == expected
    assert repr((target, patch)) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type "
             "map[string]interface {}"),
        (True, "error decoding patch: json: cannot unmarshal bool into Go value of type "
               "map[string]interface {}"),
    ],
)  # fmt: skip
def test_refuses(patch, message):
    """Only an object is a merge patch."""
    with pytest.raises(BadObject) as caught:
        merge_patch.read(patch)
    assert str(caught.value) == message
