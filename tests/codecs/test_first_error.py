"""Of several wrong values the one that Go reports is reported."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.api.core.v1.pods import Pod
from kapiserver.codecs.first_error import first_error
from kapiserver.codecs.struct_decoder import in_key_order


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, ""),
        ({"spec": {"hostNetwork": None, "unknown": 1, "nodeSelector": None}}, ""),
        ([], "array into Go value of type v1.Pod"),
        ({"spec": {"containers": [{"name": "a"}, 3]}, "metadata": 4},
         "number into Go struct field PodSpec.spec.containers of type v1.Container"),
        ({"spec": {"hostPID": 1, "hostNetwork": "x"}},
         "number into Go struct field PodSpec.spec.hostPID of type bool"),
        ({"spec": {"hostNetwork": "x", "hostPID": 1}},
         "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"spec": {"nodeSelector": {"b": 1, "a": []}, "containers": {}}},
         "number into Go struct field PodSpec.spec.nodeSelector of type string"),
        ({"metadata": {"name": 1, "creationTimestamp": "x"}}, 'parsing time "x"'),
        ({"spec": {"hostPID": 1, "overhead": {"cpu": "x"}}}, "quantities must match"),
    ],
)  # fmt: skip
def test_first_error(value: Any, message: str) -> None:
    """The first value of a wrong type counts, but a type that decodes itself ends the decoding."""
    error = first_error(Pod, value)
    assert message in str(error) if message else error is None


def test_key_order() -> None:
    """Paths come in the order of a document with sorted keys: an object before what is behind it,
    and items by their numbers."""
    paths = ["b", "a.c[10].x", "a.c[2].y", "a.c[2].b.z", "aa", "a.d"]
    expected = ["a.c[2].b.z", "a.c[2].y", "a.c[10].x", "a.d", "aa", "b"]
    assert in_key_order(paths) == expected
