"""Query parameters as options and back."""

import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.errors import UnknownKind, WrongValue
from kapiserver.codecs.parameter_codec import ParameterCodec

CODEC = ParameterCodec(Scheme())

BOTH_WAYS = [
    ("ListOptions", {}, {}),
    ("ListOptions", {"limit": ["5"], "continue": ["abc"]}, {"limit": 5, "continue": "abc"}),
    ("ListOptions", {"watch": ["true"]}, {"watch": True}),
    ("ListOptions", {"timeoutSeconds": ["0"]}, {"timeoutSeconds": 0}),
    ("ListOptions", {"sendInitialEvents": ["false"]}, {"sendInitialEvents": False}),
    ("ListOptions", {"labelSelector": ["a in (b,c)"]}, {"labelSelector": "a in (b,c)"}),
    (
        "CreateOptions",
        {"dryRun": ["All"], "fieldManager": ["x"]},
        {"dryRun": ["All"], "fieldManager": "x"},
    ),
    (
        "DeleteOptions",
        {"gracePeriodSeconds": ["0"], "propagationPolicy": ["Orphan"], "uid": ["u"]},
        {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}},
    ),
]


@pytest.mark.parametrize(("kind", "query", "options"), BOTH_WAYS)
def test_both_ways(kind, query, options):
    """A query spells options, and the options spell the query."""
    found = CODEC.decode(query, kind)
    assert found == {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}
    assert CODEC.encode(found, kind) == query


READ = [
    ("ListOptions", {"watch": [""]}, {"watch": True}),
    ("ListOptions", {"watch": ["0"]}, {}),
    ("ListOptions", {"watch": ["False"]}, {}),
    ("ListOptions", {"watch": ["anything"]}, {"watch": True}),
    ("ListOptions", {"limit": ["0"]}, {}),
    ("ListOptions", {"limit": ["+7", "8"]}, {"limit": 7}),
    ("ListOptions", {"labelSelector": ["a", "b"], "unknown": ["x"]}, {"labelSelector": "a"}),
    ("ListOptions", {"kind": ["Pod"], "apiVersion": ["v9"]}, {}),
    ("CreateOptions", {"dryRun": ["All", "None"]}, {"dryRun": ["All", "None"]}),
    ("DeleteOptions", {"preconditions": ["x"], "uid": [""]}, {}),
]


@pytest.mark.parametrize(("kind", "query", "options"), READ)
def test_read(kind, query, options):
    """Booleans are true unless they say no, the first value counts, what is unknown does not."""
    assert CODEC.decode(query, kind) == {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}


INTEGERS = [
    ("x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("", 'strconv.ParseInt: parsing "": invalid syntax'),
    ("1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    (" 1", 'strconv.ParseInt: parsing " 1": invalid syntax'),
    ("9223372036854775808", 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
    ("9" * 5000, f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'),
]


@pytest.mark.parametrize(("text", "message"), INTEGERS, ids=[t[:20] for t, _ in INTEGERS])
def test_no_integer(text, message):
    """What is no integer is refused in Go's words."""
    with pytest.raises(WrongValue) as caught:
        CODEC.decode({"limit": [text]}, "ListOptions")
    assert str(caught.value) == message


def test_unknown_options():
    """Options nobody declared are no options."""
    with pytest.raises(UnknownKind):
        CODEC.decode({}, "FooOptions")
