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
    "def f($x; g): $x + g; f(1, 2; 10)": [11, 12],
    "def f: if . <= 1 then 1 else . * (. - 1 | f) end; .status.count | f": [120],
    "def f(g): [g, g]; f(1, 2)": [[1, 2, 1, 2]],
    "1 as $x | def f: $x; 2 as $x | [f, $x]": [[1, 2]],
    "reduce range(5) as $i (0; . + $i)": [10],
    "[foreach range(4) as $i (0; . + $i; [$i, .])]": [[[0, 0], [1, 1], [2, 3], [3, 6]]],
    "[limit(3; repeat(1))], [first(range(9))], [last(range(9))]": [[1, 1, 1], [0], [8]],
    "[label $out | 1, 2, break $out, 3]": [[1, 2]],
    "try error({a: 1}) catch .a": [1],
    '"\\(.metadata.name): \\(1, 2)"': ["web-0: 1", "web-0: 2"],
    '@base64 "x\\(.metadata.name)", (.metadata.name | @base64 | @base64d)': [
        "xd2ViLTA=", "web-0",
    ],
    '[1, "a b"] | @json, @csv, @tsv, @sh': ['[1,"a b"]', '1,"a b"', "1\ta b", "1 'a b'"],
    '"a b&" | @uri, @html': ["a%20b%26", "a b&amp;"],
    "[path(.a.b, .c[1:]?)]": [[["a", "b"], ["c", {"start": 1, "end": None}]]],
    '[paths(. == "True")]': [[["status", "conditions", 0, "status"]]],
    ".status.count |= . + 1 | .status.count": [6],
    "del(.metadata, .status.conditions)": [{"status": {"count": 5}}],
    '.status.conditions[] |= select(.type == "Ready") | .status.conditions | length': [1],
    ". as {status: {count: $n}} | $n": [5],
    "[3] as {a: $x} ?// [$x] | $x": [3],
    '"a1b2" | [scan("[a-z][0-9]")], gsub("(?<d>[0-9])"; "<\\(.d)>")': [["a1", "b2"], "a<1>b<2>"],
    "[splits(\"a\")]?": [],
    "0 | todate": ["1970-01-01T00:00:00Z"],
    "now": [1_700_000_000.5],
}  # fmt: skip


@pytest.mark.parametrize(("source", "results"), RESULTS.items())
def test_results(source, results):
    assert Query(source).evaluate(POD, 1_700_000_000.5) == results


def jq_version():
    """Return the version of the program jq, such as (1, 7); (0, 0) if it is not installed."""
    if shutil.which("jq") is None:
        return (0, 0)
    completed = subprocess.run(["jq", "--version"], capture_output=True, check=True, text=True)
    return tuple(map(int, re.findall(r"\d+", completed.stdout)[:2]))


@pytest.mark.skipif(jq_version() < (1, 7), reason="jq 1.7 is not installed")
def test_same_as_jq():
    """The program jq has the same results."""
    for source, results in RESULTS.items():
        if source == "now":
            continue
        command = ["jq", "-c", source]
        completed = subprocess.run(
            command, input=orjson.dumps(POD), capture_output=True, check=True
        )
        assert [orjson.loads(line) for line in completed.stdout.splitlines()] == results, source


UNPARSABLE = {
    "": "unexpected 'end of the expression'",
    ".a b": "unexpected 'b' at position 4",
    ".[": "unexpected 'end of the expression'",
    "(": "unexpected 'end of the expression'",
    ".a | ": "unexpected 'end of the expression'",
    "nope": "function not defined: nope/0",
    "map(1; 2)": "function not defined: map/2",
    "$x": "variable not defined",
    "reduce .[] as $x (0)": "unexpected ')'",
    "def f: 1": "unexpected 'end of the expression'",
    "def f(x): y; f(1)": "function not defined: y/0",
    "def f: g; def g: 1; f": "function not defined: g/0",
    '"\\(1"': "unexpected '\"' at position 5",
    '"\\(' * 60 + "1" + ')"' * 60: "nested too deeply",
    "break $x": "label not defined: $x",
    "@none": "format not defined: @none",
    "1 as [] | 1": "unexpected ']'",
    "1e" + "9" * 40: "a number is too long",
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
    ".metadata[0]": "cannot index object with number",
    '1 + "a"': "cannot add: number and string",
    "1 / 0": "cannot divide",
    'error("no")': "no",
    '"x", "true" | tonumber': "invalid number",
    '{} | test("a")': "expected string but got: object",
    '"a" | test("(")': "",
    "[range(1000000)]": "takes too long",
    '.missing[] // "none"': "cannot iterate over: null",
    "path(1)": "invalid path against: number",
    "[1] | .[-5] = 1": "out of bounds negative array index",
    ".a[1e9] = 1": "array index too large",
    '"a" * 1e9': "a string is too long",
    "limit(-1; 1)": "doesn't support negative count",
    "def f: f; f": "takes too long",
    "def f(g): f(g | g); f(.)": "takes too long",
    "try (def f: ., f; f) catch 1": "takes too long",
    "[repeat(1)]": "takes too long",
    "1 | until(false; .)": "takes too long",
    "[recurse(.)]": "takes too long",
    "reduce range(1e9) as $i (0; .)": "takes too long",
    "reduce range(60) as $i (1; [., .])": "takes too long",
    "reduce range(60) as $i (.; .a = . | .b = .)": "takes too long",
    "null | .[65000] = 1": "takes too long",
    '"a" * 10000 | gsub(""; "b" * 1000)': "takes too long",
    "[range(4000)] | contains([range(4000)])": "takes too long",
    "[range(4000)] | indices([range(2000)])": "takes too long",
    "[range(3000)] as $a | [range(3000)] as $b | [range(1000)] | map($a == $b)": "takes too long",
    "[range(100)] | [.[] as $a | .[] as $b | .[] as $c | 1]": "takes too long",
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
     "join", "test", "has", "flatten", "to_entries", "tojson", "as $x", "$x", "#", '"',
     "def f: ", "def f(g): g;", "f", "reduce ", "foreach ", "(0; .)", "label $x |", "break $x",
     '"\\(', "@json", "|=", "=", "+=", "path", "paths", "del", "limit(1;", "?//", "[$x]", "catch"]
)  # fmt: skip


@given(st.one_of(st.lists(WORDS, max_size=20).map("".join), st.text(max_size=40)))
def test_any_source(source):
    """Any text is an expression or not, and has results or an error."""
    with contextlib.suppress(JqSyntaxError, JqError):
        assert len(Query(source).evaluate(POD)) <= MAX_STEPS
