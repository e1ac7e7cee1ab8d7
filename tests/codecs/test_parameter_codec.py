"""Query parameters as options kinds, and back."""

import pytest

from kapiserver.api.group import CORE
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
    """Encoding the decoded options gives the query again."""
    decoded = CODEC.decode(query, kind)
    assert decoded == {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}
    assert CODEC.encode(decoded, kind) == query


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
    """A boolean is true unless its value is false or 0. The first value of a parameter counts;
    unknown parameters are ignored."""
    assert CODEC.decode(query, kind) == {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}


@pytest.mark.parametrize(
    ("values", "result"),
    [
        (["80"], [80]),
        (["80,443", "0"], [80, 443, 0]),
        (["00080"], [80]),
        ([""], 'parsing "": invalid syntax'),
        (["80,x"], 'parsing "x": invalid syntax'),
        (["-1"], 'parsing "-1": invalid syntax'),
        (["65536"], 'parsing "65536": value out of range'),
        (["9" * 5000], "value out of range"),
    ],
)
def test_ports(values, result):
    """The ports of port-forward are in one parameter or in several."""
    if isinstance(result, list):
        assert CODEC.decode({"ports": values}, "PodPortForwardOptions", CORE)["ports"] == result
        return
    with pytest.raises(WrongValue, match=f"cannot convert to .*int32: .*{result}"):
        CODEC.decode({"ports": values}, "PodPortForwardOptions", CORE)


INTEGERS = [
    ("x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("", 'strconv.ParseInt: parsing "": invalid syntax'),
    ("1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    (" 1", 'strconv.ParseInt: parsing " 1": invalid syntax'),
    ("9223372036854775808", 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
    ("9" * 5000, f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'),
]


@pytest.mark.parametrize(("text", "message"), INTEGERS, ids=[t[:20] for t, _ in INTEGERS])
def test_invalid_integer(text, message):
    """An invalid integer is an error with Go's message."""
    with pytest.raises(WrongValue) as caught:
        CODEC.decode({"limit": [text]}, "ListOptions")
    assert str(caught.value) == message


def test_unknown_options():
    """A kind that is not declared is an error."""
    with pytest.raises(UnknownKind):
        CODEC.decode({}, "FooOptions")
