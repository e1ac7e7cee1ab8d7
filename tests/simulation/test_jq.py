"""Expressions of jq: their results, errors and limits."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.simulation.jq.errors import MAX_STEPS, JqError, JqSyntaxError
from kapiserver.simulation.jq.query import Query

POD = {
    "metadata": {
        "name": "web-0",
        "labels": {"app.io/name": "web"},
        "ownerReferences": [{"kind": "Job"}, {"kind": "Other"}],
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Initialized", "status": "False"},
        ],
        "count": 5,
    },
}

RESULTS = {
    ".metadata.name": ["web-0"],
    '.metadata.labels["app.io/name"]': ["web"],
    '.metadata.labels."app.io/name"': ["web"],
    ".missing.field": [None],
    ".status.conditions[0].type": ["Ready"],
    ".status.conditions[-1].type": ["Initialized"],
    ".status.conditions[5]": [None],
    ".status.conditions[1:] | length": [1],
    ".status.conditions.[].type": ["Ready", "Initialized"],
    '.status.conditions.[] | select( .type == "Ready" ) | .status': ["True"],
    ".metadata.ownerReferences.[].kind": ["Job", "Other"],
    ".missing[]?": [],
    ".metadata.name, .status.count": ["web-0", 5],
    "[.status.conditions[].type]": [["Ready", "Initialized"]],
    "{name: .metadata.name, (.status.conditions[].type): 1}": [
        {"name": "web-0", "Ready": 1},
        {"name": "web-0", "Initialized": 1},
    ],
    '.metadata | {name, "x": 1 + 1}': [{"name": "web-0", "x": 2}],
    "1 + 2 * 3 - 4 / 2 % 3": [5],
    "-.status.count": [-5],
    ".status.count > 3 and .status.count <= 5": [True],
    ".missing or false, (true | not)": [False, False],
    '.missing // "default"': ["default"],
    '(.missing[] // "none")': ["none"],
    'if .status.count > 9 then "a" elif true then "b" else "c" end': ["b"],
    "if false then 1 end | .status.count": [5],
    ".status.count as $n | $n * $n": [25],
    ".status.conditions | map(.type) | join(\",\")": ["Ready,Initialized"],
    'any(.status.conditions[]; .type == "Ready")': [True],
    'all(.status.conditions[]; .status == "True")': [False],
    "[true, false] | any, all": [True, False],
    ".status | keys": [["conditions", "count"]],
    '.status | has("count"), has("x")': [True, False],
    '.metadata.name | startswith("web"), endswith("1"), test("^w.b-[0-9]$")': [True, False, True],
    '.metadata.name | split("-"), ltrimstr("web-"), ascii_upcase': [["web", "0"], "0", "WEB-0"],
    '"12" | tonumber, length': [12, 2],
    "[3, 1, 2, 1] | sort, unique, min, max, add, first, last": [
        [1, 1, 2, 3], [1, 2, 3], 1, 3, 7, 3, 1,
    ],
    "[[1, [2]], [3]] | flatten": [[1, 2, 3]],
    '{"a": 1} | with_entries({key: "b", value: (.value + 1)})': [{"b": 2}],
    '{"a": 1, "b": null} | to_entries | from_entries': [{"a": 1, "b": None}],
    "[.status.conditions[] | .status] | sort_by(.)": [["False", "True"]],
    "[range(3)], [range(2; 4)]": [[0, 1, 2], [2, 3]],
    '[.. | strings] | contains(["Job"])': [True],
    "null | type, length": ["null", 0],
    'try error("no") catch .': ["no"],
    "[null, false, 0, \"\", [], {}] | sort == .": [True],
    ". as $x | [$x.status.count, ($x | .status.count)]": [[5, 5]],
    "# a comment\n.status.count": [5],
}  # fmt: skip


@pytest.mark.parametrize(("source", "results"), RESULTS.items())
def test_results(source, results):
    assert Query(source).evaluate(POD) == results


def jq_version():
    """Return the version of the program jq, such as (1, 7); (0, 0) if it is not installed."""
    if shutil.which("jq") is None:
        return (0, 0)
    done = subprocess.run(["jq", "--version"], capture_output=True, check=True, text=True)
    return tuple(map(int, re.findall(r"\d+", done.stdout)[:2]))


@pytest.mark.skipif(jq_version() < (1, 7), reason="jq 1.7 is not installed")
def test_same_as_jq():
    """The program jq has the same results."""
    for source, results in RESULTS.items():
        command = ["jq", "-c", source]
        done = subprocess.run(command, input=orjson.dumps(POD), capture_output=True, check=True)
        assert [orjson.loads(line) for line in done.stdout.splitlines()] == results, source


UNPARSABLE = {
    "": "unexpected 'end of the expression'",
    ".a b": "unexpected 'b' at position 4",
    ".[": "unexpected 'end of the expression'",
    "(": "unexpected 'end of the expression'",
    ".a | ": "unexpected 'end of the expression'",
    "nope": "function not defined: nope/0",
    "map(1; 2)": "function not defined: map/2",
    "$x": "variable not defined",
    "reduce .[] as $x (0; 1)": "unexpected 'reduce'",
    "def f: 1; f": "unexpected 'def'",
    '"\\(1)"': "interpolation in strings is not supported",
    "^": "unexpected '^'",
    "(" * 60 + ")" * 60: "nested too deeply",
    "." * 20_000: "longer than",
    "if 1 then 2": "unexpected 'end of the expression'",
}


@pytest.mark.parametrize(("source", "message"), UNPARSABLE.items())
def test_unparsable(source, message):
    with pytest.raises(JqSyntaxError) as raised:
        Query(source)
    assert message in str(raised.value)


FAILING = {
    ".metadata.name.first": "expected an object but got: string",
    ".missing[]": "cannot iterate over: null",
    ".metadata.name[0]": "cannot index string with number",
    '1 + "a"': "cannot add: number and string",
    "1 / 0": "cannot divide",
    'error("no")': "no",
    '"x", "true" | tonumber': "invalid number",
    '{} | test("a")': "expected string but got: object",
    '"a" | test("(")': "",
    "[range(1000000)]": "takes too long",
    "[range(1000)] | [.[] as $x | .[] as $y | 1]": "takes too long",
    " | ".join(["[., .]"] * 40) + " | tojson": "takes too long",
}


@pytest.mark.parametrize(("source", "message"), FAILING.items())
def test_failing(source, message):
    query = Query(source)
    with pytest.raises(JqError) as raised:
        query.evaluate(POD)
    assert message in str(raised.value)


WORDS = st.sampled_from(
    [".", "..", ".a", "[", "]", "(", ")", "{", "}", "|", ",", ":", "?", "//", "==", "<", "+", "-",
     "*", "/", "%", ";", " ", '"a"', "1", "0", "-1", "null", "true", "if ", " then ", " else ",
     " end", " and ", " or ", "try ", "select", "map", "keys", "length", "range", "add", "sort",
     "join", "test", "has", "flatten", "to_entries", "tojson", "as $x", "$x", "#", '"']
)  # fmt: skip


@given(st.one_of(st.lists(WORDS, max_size=20).map("".join), st.text(max_size=40)))
def test_any_source(source):
    """Any text is an expression or not, and has results or an error."""
    with contextlib.suppress(JqSyntaxError, JqError):
        assert len(Query(source).evaluate(POD)) <= MAX_STEPS
