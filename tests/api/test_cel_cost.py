"""Cost estimates of CEL expressions: the same as kube-apiserver's, which rejects definitions by
them."""

from __future__ import annotations

import itertools
import math

import pytest

from kapiserver.api.apiextensions.cel import rules
from kapiserver.api.apiextensions.cel.evaluation import CALL_LIMIT
from kapiserver.api.apiextensions.cel.schema_types import cel_type_of
from kapiserver.api.apiextensions.schema import structural
from kapiserver.api.cel.cel_types import STRING
from kapiserver.api.cel.program import compile_expression
from kapiserver.api.errors import Path

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string", "maxLength": 10},
        "free": {"type": "string"},
        "list": {"type": "array", "maxItems": 100, "items": {"type": "integer"}},
        "map": {
            "type": "object",
            "maxProperties": 16,
            "additionalProperties": {"type": "string", "maxLength": 4096},
        },
        "object": {"type": "object", "properties": {"a": {"type": "string"}}},
        "texts": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 10}},
        "objects": {
            "type": "array",
            "maxItems": 8,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 10}},
            },
        },
    },
}
COSTS = {
    # expression: cost; a name and a field selection cost 1 each
    "has(self.a)": 1,
    "has(self.a) || has(self.b) || has(self.free)": 3,
    "self.a > 1 ? self.a : 2": 2 + 1 + 2,
    "self.a == 1": 2,
    "self.object == self.object": 4,
    "self.b == 'abcdefghijklmnop'": 2 + 2,
    "self.list.all(x, true)": 2 + 1 + 100 * 3,
    "self.list.exists(x, true)": 2 + 1 + 100 * 4,
    "self.list.exists_one(x, true)": 2 + 2 + 100 * 2,
    "size(self.list.map(x, x)) > 0": 2 + 11 + 100 * 13 + 2,
    "size(self.list.map(x, true, x)) > 0": 2 + 11 + 100 * 13 + 2,
    "size(self.list.filter(x, true)) > 0": 2 + 11 + 100 * 13 + 2,
    "optional.of(self.a).optMap(x, x > 1).hasValue()": 10 + 2 * 3 + 2 + 3 + 1,
    "size(self.list + self.list) > 0": 4 + 1 + 1 + 1,
    "matches(self.free, '^a')": 2 + 1,
    "self.b.matches('abcdefgh')": 2 + 5 * 2,
    "isIP(self.free)": 3,
    "quantity(self.free).isGreaterThan(quantity('1'))": 3 + 1 + 1,
    "self.map.all(key, key.matches('abcdefgh'))": 2 + 1 + 16 * (3 + 1 + 2),
    "self.map.all(key, key.split('/')[0].size() < 253)": 2 + 1 + 16 * (3 + 1 + 3),
    "self.map.all(key, self.map[key].size() < 9)": 2 + 1 + 16 * (3 + 2 + 1 + 3),
    "self.list.sum() > 0": 2 + 100 + 1,
    "self.texts.indexOf('a') > 0": 2 + 8 * (1 + 4) + 1,
    "self.b.indexOf('a') > 0": 2 + 4 + 1,
    "size(self.texts.join('--')) > 0": 2 + 34 + 1 + 1,
    "self.texts.join().contains('abcdefghijk')": 2 + 32 + 32 * 2,
    "sets.contains(self.list, [1])": 2 + 10 + 100 + 1,
    "sets.equivalent(self.list, [1])": 2 + 10 + 200 + 1,
    "!format.uri().validate(self.b).hasValue()": 1 + 2 + 4 * 32 + 1 + 1,
    "cidr('10.0.0.0/8').containsIP(self.b)": 1 + 2 + 4 + 4,
    "cidr('10.0.0.0/8').containsCIDR(cidr(self.b))": 1 + 3 + 7,
    "self.b.replace('ab', 'abc').matches('abcd')": 2 + 8 + 7,
    "self.b.replace('a', '').contains('a')": 2 + 8 + 4,
    "'a'.contains('')": 0,
    # without a path in the schema, an object counts as unsized
    "self.b.split('/')[0].matches('abcd')": 2 + 8 + 1 + 1,
    "self.texts.map(x, x).all(y, y.contains('a'))": 2 + 11 + 8 * 13 + 1 + 8 * (3 + 1),
    "quantity(self.b) == quantity('1')": 3 + 1 + 1,
    "format.uuid().validate(self.b) == null": 1 + 2 + 4 * 32 + 1,
    "('above ' + string(self.a)).contains('a')": 3689348814741910327,  # no size is known
    "['a', 'bc'].indexOf(self.b) > 0": 10 + 2 + 2 * 2 + 1,
    "self.objects.filter(x, true).all(y, y.name.contains('a'))": 2 + 11 + 8 * 13 + 1 + 8 * (3 + 6),
    "url(self.b) == url('/')": 2 + 4 + 1 + 1,
}


@pytest.mark.parametrize("expression", COSTS)
def test_maximum_cost(expression):
    """Each node costs what cel-go estimates, with the largest sizes that the schema allows."""
    kind = cel_type_of(structural.compile(SCHEMA), is_root=False)
    assert compile_expression(expression, {"self": kind}).max_cost == COSTS[expression]


TEXTS = ("", "a", "abcdefghi", "abcdefghij", "abcdefghijk", "x" * 100)


@pytest.mark.parametrize("operator", ["==", "!="])
def test_comparing_texts_costs_the_same_whatever_their_type(operator):
    """The cost of comparing two texts is that of their characters, known types or not."""
    typed = compile_expression(f"x {operator} y", {"x": STRING, "y": STRING})
    untyped = compile_expression(f"[x][0] {operator} dyn(y)", {"x": STRING, "y": STRING})
    for left, right in itertools.product(TEXTS, TEXTS):
        variables = {"x": left, "y": right}
        result = typed.evaluate(variables, 1000)
        shorter = min(len(left), len(right))
        assert result.cost == 2 + math.ceil(shorter / 10) + len(left) // 10
        assert result.value is ((left == right) is (operator == "=="))
        assert typed.evaluate(variables, result.cost - 1).is_exceeded
        assert untyped.evaluate(variables, 1000).value is result.value


OPTIONS = ("country", "region", "city", "asn", "isp", "anonymous")
ACCEPTED = {
    "an object among as many as fit into a request": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in OPTIONS},
            "x-kubernetes-validations": [
                {"rule": " || ".join(f"has(self.{name})" for name in OPTIONS)}
            ],
        },
    },
    "the keys of a map": {
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 4096},
        "x-kubernetes-validations": [
            {"rule": "self.all(key, key.matches(r'^([a-z0-9.-]{1,253}/)?[A-Za-z0-9_.-]{1,63}$'))"},
            {"rule": "self.all(key, key.split('/')[0].size() < 253)"},
        ],
    },
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_rules_of_real_definitions_are_not_too_costly(name):
    """Rules like those of Gateway API and Envoy Gateway are accepted."""
    schema = {"type": "object", "properties": {"spec": ACCEPTED[name]}}
    assert rules.check_rules(structural.compile(schema), Path("@")) == []


LONG_SEARCHES = (
    "self.findAll('|b').size() > 0",
    "self.findAll('a*b|').size() > 0",
    "self.findAll('|b', 100000).size() > 0",
    "self.find('(?:a?){900}b') == ''",
    "self.matches('((a?){30}){30}b')",
)


@pytest.mark.parametrize("expression", LONG_SEARCHES)
def test_searches_of_a_long_text(expression):
    """A search that would take seconds exceeds the limit of one expression before: each match may
    read the rest of the text again, and a short pattern may have very many instructions."""
    result = compile_expression(expression, {"self": STRING}).evaluate(
        {"self": "a" * 500_000}, CALL_LIMIT
    )
    assert result.is_exceeded


@pytest.mark.parametrize(
    "expression",
    [
        "self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
        "self.find('[0-9]+') == ''",
        "self.findAll('[0-9]').size() == 0",
        "self.findAll('a').size() == 60",
        "self.findAll('a*|b') == [self]",
    ],
)
def test_searches_of_short_texts(expression):
    """Usual searches cost little; findAll ignores an empty match next to the one before, as Go
    does."""
    program = compile_expression(expression, {"self": STRING})
    result = program.evaluate({"self": "a" * 60}, CALL_LIMIT)
    assert result.value is True
    assert result.cost < 200
