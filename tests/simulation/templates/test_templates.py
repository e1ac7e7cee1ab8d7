"""Templates of Go: what they write, what is refused, and the limits that no template exceeds."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.simulation.templates.errors import MAX_TEXT, TemplateError
from kapiserver.simulation.templates.functions import BUILTINS, functions
from kapiserver.simulation.templates.sprig import SPRIG
from kapiserver.simulation.templates.template import Template
from kapiserver.simulation.templates.values import from_json

FUNCTIONS = functions(BUILTINS, SPRIG)
POD = {
    "metadata": {"name": "web", "labels": {"b": "2", "a": "1"}, "annotations": None},
    "spec": {
        "replicas": 3,
        "ratio": 0.5,
        "on": True,
        "containers": [{"name": "app", "image": "nginx"}, {"name": "side"}],
        "empty": [],
    },
}


def evaluate(source, data=POD):
    return Template(source, FUNCTIONS).evaluate(from_json(data), FUNCTIONS)


WRITTEN = {
    # Text, trim markers and comments.
    "": "",
    "a {{ 1 }} b": "a 1 b",
    "a {{- 1 -}} b": "a1b",
    "a {{/* x */}} b": "a  b",
    "a {{- /* x */ -}} b": "ab",
    "{{- 1}}{{- -2 }}": "1-2",
    # Constants.
    '{{ "a\\tb\\x41\\u00e9\\101" }}': "a\tbAéA",
    "{{ `a\\tb` }}": "a\\tb",
    "{{ 'a' }} {{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 017 }} {{ 1.50 }} {{ 1e7 }}": (
        "97 1000 31 3 15 1.5 1e+07"
    ),
    "{{ true }} {{ false }}": "true false",
    # Fields and variables.
    "{{ .metadata.name }}": "web",
    "{{ .metadata.missing }}": "<no value>",
    "{{ .metadata.labels }}": "map[a:1 b:2]",
    "{{ .spec.replicas }} {{ .spec.ratio }} {{ .spec.on }}": "3 0.5 true",
    "{{ (index .spec.containers 0).name }}": "app",
    "{{ $x := .spec }}{{ $x.replicas }}{{ $.metadata.name }}": "3web",
    "{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}": "2",
    # Branches and loops.
    "{{ if .spec.empty }}a{{ else if .spec.on }}b{{ else }}c{{ end }}": "b",
    "{{ if not .spec.replicas }}a{{ else }}b{{ end }}": "b",
    "{{ with .metadata.name }}{{ . }}{{ end }}": "web",
    "{{ with .x }}a{{ else with .metadata.name }}{{ . }}{{ else }}b{{ end }}": "web",
    "{{ range .spec.containers }}{{ .name }},{{ end }}": "app,side,",
    "{{ range $i, $c := .spec.containers }}{{ $i }}{{ $c.name }}{{ end }}": "0app1side",
    "{{ range $name, $value := .metadata.labels }}{{ $name }}{{ $value }}{{ end }}": "a1b2",
    "{{ range .x }}a{{ else }}none{{ end }}": "none",
    "{{ range 3 }}{{ . }}{{ end }}": "012",
    "{{ range until 9 }}{{ if eq . 1 }}{{ continue }}{{ end }}"
    "{{ if gt . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}": "023",
    # Templates within templates.
    '{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .metadata.name }}{{ template "t" }}': (
        "<web><<no value>>"
    ),
    '{{ block "t" .spec }}{{ .replicas }}{{ end }}': "3",
    # Pipelines and functions of Go.
    '{{ "x" | printf "%s-%s" "y" }}': "y-x",
    '{{ printf "%03d %5.1f %-3s| %q %v %x %t %%" 7 2.25 "a" "b" .spec.empty 255 true }}': (
        '007   2.2 a  | "b" [] ff true %'
    ),
    '{{ printf "%d %s" "a" }}': "%!d(string=a) %!s(MISSING)",
    '{{ printf "a" 1 }}': "a%!(EXTRA int=1)",
    '{{ printf "%v %s" nil nil }}': "<nil> %!s(<nil>)",
    '{{ print "a" 1 2 "b" }}': "a1 2b",
    "{{ println 1 2 }}": "1 2\n",
    '{{ or .metadata.annotations "none" }} {{ and 1 0 }} {{ or 0 "" }}|': "none 0 |",
    '{{ or true (fail "not evaluated") }}': "true",
    '{{ eq .metadata.name "a" "web" }} {{ ne 1 2 }} {{ lt 1 2 }} {{ ge "b" "a" }}': (
        "true true true true"
    ),
    '{{ eq .metadata.missing "x" }}': "false",
    '{{ eq .spec.replicas "3" }}': "true",
    '{{ len .spec.containers }} {{ len "é" }} {{ slice "abc" 1 2 }}': "2 2 b",
    '{{ html "<a>" }} {{ js "\'" }} {{ urlquery "a b" }}': "&lt;a&gt; \\' a+b",
    # sprig.
    '{{ default "a" .x }} {{ coalesce nil "" 2 }} {{ ternary 1 2 false }}': "a 2 2",
    '{{ upper "a" }} {{ trimSuffix "c" "abc" }} {{ repeat 2 "ab" }} {{ trunc -2 "abc" }}': (
        "A ab abab bc"
    ),
    '{{ quote 1 "a" }} {{ squote "b" }} {{ indent 2 "x\\ny" }}': '"1" "a" \'b\'   x\n  y',
    '{{ add 1 .spec.replicas "2" }} {{ div 7 2 }} {{ mod -7 3 }} {{ max 1 5 2 }}': "6 3 -1 5",
    '{{ add1 9223372036854775807 }}': "-9223372036854775808",
    '{{ list 1 2 | join "-" }} {{ first (list 3) }} {{ has 2 (list 1 2) }}': "1-2 3 true",
    '{{ dict "a" 1 "b" (list true nil) | toJson }}': '{"a":1,"b":[true,null]}',
    '{{ (fromJson "{\\"a\\": [1]}").a }}': "[1]",
    '{{ $d := dict }}{{ $_ := set $d "a" 1 }}{{ get $d "a" }}{{ hasKey $d "b" }}': "1false",
    '{{ dig "metadata" "labels" "a" "none" . }} {{ dig "x" "none" . }}': "1 none",
    '{{ regexMatch "^a+$" "aa" }} {{ regexFind "[0-9]+" "a12" }}': "true 12",
    '{{ b64enc "a" }} {{ b64dec "YQ==" }} {{ sha256sum "" | trunc 8 }}': "YQ== a e3b0c442",
    '{{ date "2006-01-02T15:04:05Z07:00" "2025-01-02T03:04:05Z" }}': "2025-01-02T03:04:05Z",
    '{{ merge (dict "a" 1) (dict "a" 2 "b" 3) }}': "map[a:1 b:3]",
    '{{ splitList "," "a,b" }} {{ camelcase "a_bc" }} {{ snakecase "ABc" }}': "[a b] ABc a_bc",
    '{{ seq 1 2 5 }} {{ until 3 }} {{ kindOf (list) }} {{ typeOf .spec.replicas }}': (
        "1 3 5 [0 1 2] slice json.Number"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "text"), WRITTEN.items())
def test_written(source, text):
    assert evaluate(source) == text


UNPARSABLE = {
    "{{": "line 1: unclosed action",
    "\n{{ .a": "line 2: unclosed action",
    '{{ "a }}': "line 1: unterminated quoted string",
    "{{/* }}": "unclosed comment",
    "{{/* a */ 1}}": "comment ends before closing delimiter",
    "{{ }}": "missing value for command",
    "{{ if }}{{ end }}": "missing value for command",
    "{{ if 1 }}": "unexpected EOF",
    "{{ end }}": "unexpected {{end}}",
    "{{ else }}": "unexpected {{else}}",
    "{{ if 1 }}{{ else }}{{ else }}{{ end }}": "expected end; found {{else}}",
    "{{ nope }}": 'function "nope" not defined',
    "{{ $x }}": 'undefined variable "$x"',
    "{{ $x = 1 }}": 'undefined variable "$x"',
    "{{ if 1 }}{{ $x := 1 }}{{ end }}{{ $x }}": 'undefined variable "$x"',
    "{{ nil }}": "nil is not a command",
    "{{ 1 2 }}": "can't give argument to non-function",
    "{{ 1 | 2 }}": "non executable command in pipeline",
    "{{ break }}": "{{break}} outside {{range}}",
    "{{ .a.1 }}": "unexpected",
    "{{ (1 }}": "unexpected '' in a pipeline",
    "{{ 1.2.3 }}": "unexpected",
    '{{ "\\q" }}': "invalid escape",
    "{{ 9223372036854775808 }}": "integer overflow",
    "{{ template x }}": "instead of a name of a template",
    "{{ range $a, 1 := .x }}{{ end }}": "range can only initialize variables",
    "{{ if 1 }}" * 60: "nested too deeply",
    "{{ " + "(" * 60: "nested too deeply",
    "a" * 300_000: "longer than",
}


@pytest.mark.parametrize(("source", "message"), UNPARSABLE.items())
def test_unparsable(source, message):
    with pytest.raises(TemplateError, match=_literally(message)):
        Template(source, FUNCTIONS)


FAILING = {
    "{{ .metadata.missing.name }}": "nil pointer evaluating interface {}.name",
    "{{ .metadata.name.first }}": "can't evaluate field first in type string",
    "{{ index .spec.containers 5 }}": "index out of range: 5",
    "{{ index .missing 0 }}": "index of untyped nil",
    "{{ len 3 }}": "len of type int",
    "{{ eq .spec.replicas 3 }}": "incompatible types for comparison",
    '{{ eq 1 "1" }}': "incompatible types for comparison",
    "{{ lt .spec.containers 1 }}": "invalid type for comparison",
    "{{ range true }}{{ end }}": "range can't iterate over true",
    '{{ template "missing" }}': 'template "missing" not defined',
    "{{ upper 1 }}": "upper: wrong type for value; expected string; got int",
    "{{ upper }}": "wrong number of args for upper: got 0",
    "{{ .metadata.name 1 }}": "can't give argument to non-function",
    '{{ fail "stop" }}': "error calling fail: stop",
    "{{ div 1 0 }}": "integer divide by zero",
    '{{ regexMatch "(" "" }}': "error calling regexMatch",
    # Limits.
    '{{ repeat 2000000 "x" }}': f"a text is longer than {MAX_TEXT} characters",
    '{{ $s := repeat 1000000 "x" }}{{ $s }}{{ $s }}': "a text is longer",
    '{{ $s := repeat 1000 "x" }}{{ replace "x" $s (repeat 10000 "x") }}': "a text is longer",
    '{{ define "t" }}{{ template "t" }}{{ end }}{{ template "t" }}': "call each other too deeply",
    "{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}": "takes too long",
    "{{ $l := list 1 }}{{ range until 100 }}{{ $l = list $l $l }}{{ end }}": "takes too long",
    "{{ until 100000 }}": "more than 10000 numbers",
    '{{ printf "%9999d" 1 }}': "a width is larger",
    '{{ $d := dict }}{{ set $d "a" (list $d) }}': "a map cannot hold itself",
}  # fmt: skip


@pytest.mark.parametrize(("source", "message"), FAILING.items())
def test_failing(source, message):
    """Evaluations that end with an error."""
    template = Template(source, FUNCTIONS)
    with pytest.raises(TemplateError, match=_literally(message)):
        template.evaluate(from_json(POD), FUNCTIONS)


def _literally(message):
    return message.translate({ord(each): f"\\{each}" for each in "\\.^$*+?{}[]|()"})


def test_parsed_once():
    """A template is evaluated for many values; none sees the variables of another."""
    template = Template("{{ $x := .a }}{{ $x }}", FUNCTIONS)
    assert [template.evaluate(from_json({"a": n}), FUNCTIONS) for n in (1, 2)] == ["1", "2"]


WORDS = st.sampled_from(
    ["{{", "}}", "{{-", " -}}", " ", ".", ".a", "$", "$x", ":=", "=", "|", "(", ")", ",", '"', "`",
     "'", "/*", "*/", "if", "else", "end", "range", "with", "define", "template", "block", "break",
     "continue", "nil", "true", "1", "-", "0x", "1e", "and", "or", "index", "printf", '"%s"',
     "list", "dict", "until", "repeat", "toJson", "é", "\n", "\\"]
)  # fmt: skip


@given(st.one_of(st.lists(WORDS, max_size=30).map("".join), st.text(max_size=60)))
def test_any_source(source):
    """Any text is a template or not; no other error is raised, while parsing or evaluating."""
    with contextlib.suppress(TemplateError):
        assert len(evaluate(source)) <= MAX_TEXT


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 1 << 70), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(VALUES, max_size=4))
def test_any_arguments(name, arguments):
    """A function takes its arguments, or raises TemplateError."""
    with contextlib.suppress(TemplateError):
        assert not callable(FUNCTIONS[name](*arguments))


@given(st.text(max_size=40).filter(lambda text: "{{" not in text))
def test_text(text):
    """Text without actions is written as it is."""
    assert evaluate(text) == text
