"""CEL rules of schemas: validation of the rules and of objects by them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.apiextensions.cel import rules
from kapiserver.api.apiextensions.cel.evaluation import OutOfTime
from kapiserver.api.apiextensions.cel.schema_types import escaped
from kapiserver.api.apiextensions.schema import structural
from kapiserver.api.errors import Path, RatchetedError
from tests.api.test_pruning import TREES, schemas

NAMES = {
    "a": "a", "a.b": "a__dot__b", "a-b": "a__dash__b", "a/b": "a__slash__b",
    "a__b": "a__underscores__b", "namespace": "__namespace__", "in": "__in__", "true": "__true__",
    "1a": None, "a b": None, "": None, "é": None,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_in_expressions(name):
    """Field names that are not identifiers are escaped or inaccessible."""
    assert escaped(name) == NAMES[name]


AT = Path("@")
STRING = {"type": "string", "maxLength": 10}


def obj(*rules, **properties):
    rules = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    schema = {"type": "object", "properties": properties}
    return {**schema, "x-kubernetes-validations": rules} if rules else schema


def broken(schema, value, old=None):
    errors = rules.validate(value, old, structural.compile(schema))
    return [f"{'tolerated: ' * isinstance(error, RatchetedError)}{error}" for error in errors]


INT = {"type": "integer"}
LIST = {"type": "array", "items": INT}
KEYED = {
    "type": "array",
    "maxItems": 5,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {**obj("self.v >= oldSelf.v", k=STRING, v=INT), "required": ["k"]},
}
BROKEN = {
    "a field": (
        obj(spec=obj("self.a < self.b", a=INT, b=INT)),
        {"spec": {"a": 2, "b": 1}},
        None,
        ['spec: Invalid value: failed rule: self.a < self.b'],
    ),
    "plain values, which are shown": (
        obj(
            a={**INT, "x-kubernetes-validations": [{"rule": "self > 9"}]},
            s={**STRING, "x-kubernetes-validations": [{"rule": "self != ''", "message": "empty"}]},
        ),
        {"a": 5, "s": ""},
        None,
        ["a: Invalid value: 5: failed rule: self > 9", 's: Invalid value: "": empty'],
    ),
    "the whole": (
        obj("self.metadata.name == 'a' && self.kind == 'K'"),
        {"kind": "X", "metadata": {"name": "a"}},
        None,
        [
            "<nil>: Invalid value: failed rule: self.metadata.name == 'a' && "
            "self.kind == 'K'"
        ],
    ),
    "message": (
        obj(spec=obj({"rule": "false", "message": " told "}, a=INT)),
        {"spec": {}},
        None,
        ['spec: Invalid value: told'],
    ),
    "message of an expression": (
        obj(spec=obj({"rule": "false", "messageExpression": "'a is ' + string(self.a)"}, a=INT)),
        {"spec": {"a": 5}},
        None,
        ['spec: Invalid value: a is 5'],
    ),
    "message of an expression that fails": (
        obj(
            spec=obj(
                {"rule": "false", "message": "x", "messageExpression": "string(self.a)"}, a=INT
            )
        ),
        {"spec": {}},
        None,
        ['spec: Invalid value: x'],
    ),
    "reason and path": (
        obj(
            spec=obj(
                {"rule": "false", "reason": "FieldValueRequired", "fieldPath": ".m['x.y']"},
                m=obj(**{"x.y": STRING}),
            )
        ),
        {"spec": {}},
        None,
        ["spec.m.x.y: Required value: failed rule: false"],
    ),
    "no value": (
        obj(spec=obj("self.a > 0", a=INT)),
        {"spec": {}},
        None,
        ['spec: Invalid value: "object": no such key: a evaluating rule: self.a > 0'],
    ),
    "another type than expected": (
        obj(spec=obj("self.a > 0", a={"x-kubernetes-int-or-string": True})),
        {"spec": {"a": "x"}},
        None,
        [
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a "
            "supported operator, function or macro signature for rule: self.a > 0"
        ],
    ),
    "a value that the schema has forbidden since": (
        obj(a={"type": "number", "x-kubernetes-validations": [{"rule": "string(self) == ''"}]}),
        {"a": {"b": 1}},
        {"a": {"b": 1}, "c": 1},
        [
            "a: Invalid value: \"number\": 'no such overload': call arguments did not match a "
            "supported operator, function or macro signature for rule: string(self) == ''"
        ],
    ),
    "items and entries": (
        obj(
            l={"type": "array", "items": obj("self.a > 0", a=INT)},
            m={"type": "object", "additionalProperties": obj("self.a > 0", a=INT)},
        ),
        {"l": [{"a": 1}, {"a": 0}], "m": {"k": {"a": 0}}},
        None,
        [
            'l[1]: Invalid value: failed rule: self.a > 0',
            'm[k]: Invalid value: failed rule: self.a > 0',
        ],
    ),
    "a transition": (
        obj(spec=obj("self.a >= oldSelf.a", a=INT)),
        {"spec": {"a": 1}},
        {"spec": {"a": 2}},
        ['spec: Invalid value: failed rule: self.a >= oldSelf.a'],
    ),
    "a transition from nothing": (
        obj(spec=obj("self.a >= oldSelf.a", a=INT)),
        {"spec": {"a": 1}},
        {},
        [],
    ),
    "an optional transition from nothing": (
        obj(
            spec=obj(
                {"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": True}, a=INT
            )
        ),
        {"spec": {"a": 1}},
        None,
        ['spec: Invalid value: failed rule: oldSelf.hasValue() || self.a == 0'],
    ),
    "a transition of keyed items": (
        obj(l=KEYED),
        {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]},
        {"l": [{"k": "a", "v": 2}, {"k": "b", "v": 1}]},
        ['l[1]: Invalid value: failed rule: self.v >= oldSelf.v'],
    ),
    "unchanged": (
        obj(spec=obj("false", a=INT), other=INT),
        {"spec": {"a": 1}, "other": 1},
        {"spec": {"a": 1}, "other": 2},
        ["tolerated: spec: Invalid value: failed rule: false"],
    ),
    "changed": (
        obj(spec=obj("false", a=INT)),
        {"spec": {"a": 1}},
        {"spec": {"a": 2}},
        ['spec: Invalid value: failed rule: false'],
    ),
    "a transition that is unchanged": (
        obj(spec=obj("self.a > oldSelf.a", a=INT)),
        {"spec": {"a": 1}},
        {"spec": {"a": 1}},
        ['spec: Invalid value: failed rule: self.a > oldSelf.a'],
    ),
    "null": (obj(spec={**obj("false", a=INT), "nullable": True}), {"spec": None}, None, []),
    "a reserved word": (
        obj("!has(self.t.metadata.namespace)", t=obj(metadata=obj(namespace=STRING))),
        {"t": {"metadata": {"namespace": "n"}}},
        None,
        ["<nil>: Invalid value: failed rule: !has(self.t.metadata.namespace)"],
    ),
    "sets": (
        obj(
            "self.s == ['b', 'a'] && self.s + ['a'] == self.s",
            s={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        ),
        {"s": ["a", "b"]},
        None,
        [],
    ),
    "formats": (
        obj(
            "self.t.getFullYear() == 2024 && self.d > duration('1h') && self.b == b'abc' && "
            "self.ts.all(t, t < timestamp('2025-01-01T00:00:00Z'))",
            t={"type": "string", "format": "date-time"},
            d={"type": "string", "format": "duration"},
            b={"type": "string", "format": "byte"},
            ts={"type": "array", "items": {"type": "string", "format": "date"}},
        ),
        {"t": "2024-01-01T00:00:00Z", "d": "2h", "b": "YWJj", "ts": ["2024-05-05"]},
        None,
        [],
    ),
    "too much": (
        obj("self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
            l={"type": "array", "items": INT}),
        {"l": list(range(300))},
        None,
        [
            "<nil>: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
            "no further validation rules will be run due to call cost exceeds limit for rule: "
            "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_rules(name):
    """The errors of an object that breaks rules have kube-apiserver's messages."""
    schema, value, old, messages = BROKEN[name]
    assert broken(schema, value, old) == messages


def test_all_rules_of_an_object_share_a_budget():
    """Rules that are within their own limits together exceed the limit of the object."""
    [message] = broken(LONG, {"t": "t" * (4 << 20)})
    assert message.endswith("no further validation rules will be run")


LONG = obj(*[f"self.t == self.t && {count} > 0" for count in range(1, 40)], t={"type": "string"})


def test_evaluation_raises_out_of_time():
    """Evaluation, including compilation, raises OutOfTime at its step limit; without a limit, it
    returns the same errors."""
    node = structural.compile(LONG)
    for steps in (0, 100, 100_000):
        with pytest.raises(OutOfTime):
            rules.validate({"t": "t" * (2 << 20)}, None, node, steps=steps)
    assert rules.validate({"t": "t"}, None, node, steps=1000) == []
    schema = structural.compile(obj("self.l.all(a, self.l.all(b, a < b))", l=LIST))
    value = {"l": list(range(500, 0, -1))}
    assert rules.validate(value, None, schema, steps=100_000) == rules.validate(value, None, schema)


def refused(schema):
    errors = rules.check_rules(structural.compile(schema), AT)
    return [(error.path.text, error.type, error.detail.split("\n")[0]) for error in errors]


RULE = "@.x-kubernetes-validations[0]"
BUDGET = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
REFUSED = {
    "parts of a text are not longer than it": (
        obj("self.b.split(',').map(x, x.trim()).all(x, x.upperAscii() != '')", b=STRING),
        [],
    ),
    "fine": (obj("self.a > 0 && self.b.startsWith('x')", a=INT, b=STRING), []),
    "problem": (
        obj("self.x > 0", a=INT),
        [
            (
                f"{RULE}.rule",
                "invalid",
                "compilation failed: ERROR: <input>:1:5: undefined field 'x'",
            )
        ],
    ),
    "no bool": (
        obj("self.a", a=INT),
        [
            (
                f"{RULE}.rule",
                "invalid",
                "cel expression must evaluate to a bool",
            )
        ],
    ),
    "no text": (
        obj({"rule": "true", "messageExpression": "1"}),
        [
            (
                f"{RULE}.messageExpression",
                "invalid",
                "messageExpression must evaluate to a string",
            )
        ],
    ),
    "empty": (obj(" "), [(f"{RULE}.rule", "required", "rule is not specified")]),
    "empty message": (
        obj({"rule": "true", "message": " "}),
        [(f"{RULE}.message", "invalid", "must be non-empty if specified")],
    ),
    "lines": (
        obj("true &&\ntrue"),
        [
            (
                f"{RULE}.message",
                "required",
                "message must be specified if rule contains line breaks",
            )
        ],
    ),
    "reason": (
        obj({"rule": "true", "reason": "X"}),
        [
            (
                f"{RULE}.reason",
                "not supported",
                'supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"',
            )
        ],
    ),
    "path": (
        obj({"rule": "true", "fieldPath": ".x"}, a=INT),
        [(f"{RULE}.fieldPath", "invalid", "must be a valid path")],
    ),
    "optional without a transition": (
        obj({"rule": "true", "optionalOldSelf": True}),
        [
            (
                f"{RULE}.optionalOldSelf",
                "invalid",
                "may not be set if oldSelf is not used in rule",
            )
        ],
    ),
    "transition of items without keys": (
        obj(
            l={
                "type": "array",
                "maxItems": 3,
                "items": {
                    **STRING,
                    "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
                },
            }
        ),
        [
            (
                "@.properties[l].items.x-kubernetes-validations[0].rule",
                "invalid",
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                "@.properties[l]",
            )
        ],
    ),
    "too costly": (
        obj(
            "self.l.all(a, self.l.all(b, a != b))",
            l={"type": "array", "maxItems": 1500, "items": STRING},
        ),
        [
            (
                f"{RULE}.rule",
                "forbidden",
                f"estimated rule cost exceeds budget by factor of 2.0x {BUDGET}",
            )
        ],
    ),
    "bounded": (
        obj(
            "self.l.all(a, self.l.all(b, a != b))",
            l={"type": "array", "maxItems": 100, "items": STRING},
        ),
        [],
    ),
}  # fmt: skip


def test_shown_rule():
    """The error shows the rule as JSON of Go's internal type, with all its members."""
    schema = obj("self.x < 0", a=INT)
    (error,) = rules.check_rules(structural.compile(schema), AT)
    message = (
        r'{"Rule":"self.x \u003c 0","Message":"","MessageExpression":"","Reason":null,'
        r'"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5:'
    )
    assert str(error).startswith(f"{RULE}.rule: Invalid value: {message}")


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_rules(name):
    """A rule that does not compile or costs too much is refused with the reason."""
    schema, expected = REFUSED[name]
    assert refused(schema) == expected


def test_a_schema_costs_as_much_as_all_its_rules():
    """Rules that are within their own limits together exceed the limit of the schema."""
    costly = "self.l.all(a, self.l.all(b, a != b))"
    errors = refused(
        obj(
            *[f"{costly} && {count} > 0" for count in range(30)],
            l={"type": "array", "maxItems": 1000, "items": STRING},
        )
    )
    assert [kind for _, kind, _ in errors] == ["forbidden"] * 5
    assert errors[-1][0] == "@"
    assert errors[-1][2].startswith("x-kubernetes-validations estimated rule cost total")


@settings(max_examples=60)
@given(schemas(), TREES, TREES, st.sampled_from(["true", "self == oldSelf", "size(self) > 1"]))
def test_rules_never_raise(schema, value, old, rule):
    """Any rule of any schema can be evaluated for any value."""
    node = structural.compile({**schema, "x-kubernetes-validations": [{"rule": rule}]})
    assert isinstance(rules.check_rules(node, AT), list)
    assert isinstance(rules.validate(value, old, node), list)
