"""CEL libraries that some environments have, or that came late: lists, authorizer, constructed
types, bindings."""

from __future__ import annotations

import pytest

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.extensions import BASE, DEVICES, MUTATIONS
from kapiserver.api.cel.libraries.authorization import (
    CHECK_COST,
    Authorizer,
    Check,
    Decision,
    DecisionRequired,
    Decisions,
    ResourceCheck,
)
from kapiserver.api.cel.program import CompileError, compile_expression

LIMIT = 1_000_000
VARIABLES = {
    "x": k.DYN,
    "ints": k.list_of(k.INT, 100),
    "authorizer": k.CelType("authorizer"),
    "authorizer.requestResource": k.CelType("resourcecheck"),
}


def compiled(expression, extensions=BASE):
    return compile_expression(expression, VARIABLES, extensions)


def run(expression, extensions=BASE, **values):
    return compiled(expression, extensions).evaluate({"x": {"a": [3, 1, 2]}, **values}, LIMIT)


LISTS = """
[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == [] && x.a.slice(0, 1) == [3]
[[1, 2], [3]].flatten() == [1, 2, 3] && [dyn(1), dyn([2, 3])].flatten() == dyn([1, 2, 3])
[[[1]], [[2]]].flatten(2) == dyn([1, 2]) && [[1], []].flatten(0) == dyn([[1], []])
[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [].sort() == []
[true, false].sort() == [false, true] && [2.5, 1.0].sort() == [1.0, 2.5]
[duration('2s'), duration('1s')].sort()[0] == duration('1s') && x.a.sort() == [1, 2, 3]
[3, 1, 2].sortBy(e, -e) == [3, 2, 1] && ['bb', 'a'].sortBy(e, size(e)) == ['a', 'bb']
x.a.sortBy(e, e) == [1, 2, 3]
[1, 2, 2, 1].distinct() == [1, 2] && [dyn(1), dyn('b'), dyn(1.0)].distinct() == [dyn(1), dyn('b')]
lists.range(3) == [0, 1, 2] && lists.range(0) == []
[5, 3, 1].reverse() == [1, 3, 5] && [].reverse() == []
"""


@pytest.mark.parametrize("expression", LISTS.strip().splitlines())
def test_lists(expression):
    """Functions of lists have the values of version 3 of cel-go's library."""
    result = run(expression)
    assert (result.failure, result.value) == (None, True)


LIST_FAILURES = {
    "[1].slice(-1, 1) == []": "cannot slice(-1, 1), negative indexes not supported",
    "[1].slice(1, 0) == []": (
        "cannot slice(1, 0), start index must be less than or equal to end index"
    ),
    "[1].slice(0, 2) == []": "cannot slice(0, 2), list is length 1",
    "[[1]].flatten(-1) == []": "level must be non-negative",
    "lists.range(-1) == []": "lists.range: size must be non-negative, got -1",
    "lists.range(10000001) == []": (
        "lists.range: size 10000001 exceeds maximum allowed (10000000)"
    ),
    "[1, 2].sortBy(e, e == 1 ? dyn('a') : dyn(1)) == []": "list elements must have the same type",
    "[1].sortBy(e, dyn([e])) == []": "list elements must be comparable",
}


@pytest.mark.parametrize("expression", LIST_FAILURES)
def test_list_failures(expression):
    """A function of lists fails with cel-go's message."""
    assert run(expression).failure == LIST_FAILURES[expression]


LIST_COSTS = {
    # expression: estimate of cel-go for a list of 100 items
    "ints.slice(1, 3)": 1 + 2 + 11,
    "ints.slice(1, x.n)": 1 + 1 + (100 - 1) + 11,
    "[ints].flatten()": 10 + 1 + 1 + 11,
    "ints.reverse()": 1 + 100 + 11,
    "ints.distinct()": 1 + 2 * 10_000 + 11,
    "ints.sort()": 1 + 2 * 10_000 + 11,
    "['a', 'b'].sort()": 10 + 2 * 4 + 1 + 11,
    "lists.range(7)": 7 + 11,
}


@pytest.mark.parametrize("expression", LIST_COSTS)
def test_list_costs(expression):
    """The estimated cost of a function of lists is that of cel-go."""
    assert compiled(expression).max_cost == LIST_COSTS[expression]


HOSTILE = [
    "lists.range(10000000).size() > 0",
    "lists.range(900000).map(i, lists.range(900000)).size() > 0",
    "lists.range(100000).distinct().size() > 0",
    "lists.range(200000).sortBy(i, -i).size() > 0",
    "lists.range(1000).map(i, lists.range(1000)).flatten().flatten(5).size() > 0",
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_hostile_lists_end_at_the_limit(expression):
    """Long lists end at the cost limit."""
    result = run(expression)
    assert result.is_exceeded
    assert result.cost <= 20 * LIMIT


def test_bindings():
    """`cel.bind` is a macro in the selectors of devices, and unknown in all other environments."""
    assert run("cel.bind(y, 2, y + y) == 4", DEVICES).value is True
    for extensions in (BASE, MUTATIONS):
        with pytest.raises(CompileError) as caught:
            compiled("cel.bind(y, 2, y + y) == 4", extensions)
        messages = [line for line in str(caught.value).splitlines() if line.startswith("ERROR")]
        assert messages == [
            "ERROR: <input>:1:1: undeclared reference to 'cel' (in container '')",
            "ERROR: <input>:1:9: undeclared reference to 'bind' (in container '')",
        ]


CHECKS = {
    "authorizer.path('/healthz').check('get').allowed()": Check(path="/healthz", verb="get"),
    "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d')"
    ".check('update').allowed()": Check(
        verb="update", group="apps", resource="deployments", subresource="scale", namespace="n",
        name="d",
    ),
    "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').fieldSelector('a=b')"
    ".labelSelector('c=d').check('list').allowed()": Check(
        verb="list", account=("ns", "sa"), resource="pods", field_selector="a=b",
        label_selector="c=d",
    ),
    "authorizer.requestResource.check('create').allowed()": Check(verb="create", resource="pods"),
}  # fmt: skip


def authorize(expression, *known, limit=LIMIT):
    decisions = Decisions(dict(known))
    decisions.begin(limit)
    values = {
        "authorizer": Authorizer(Check(), decisions),
        "authorizer.requestResource": ResourceCheck(Check(resource="pods"), decisions),
    }
    return run(expression, **values), decisions


@pytest.mark.parametrize("expression", CHECKS)
def test_checks(expression):
    """A check asks for its decision, and has it when the expression is evaluated again."""
    check = CHECKS[expression]
    with pytest.raises(DecisionRequired) as caught:
        authorize(expression)
    assert caught.value.check == check
    assert authorize(expression, (check, Decision(True)))[0].value is True
    result, decisions = authorize(expression, (check, Decision(False)))
    assert (result.value, decisions.cost) == (False, CHECK_COST)
    assert CHECK_COST < compiled(expression).max_cost < CHECK_COST + 50


def test_decisions():
    """A decision tells its reason and its error."""
    decisions = (Check(path="/x", verb="get"), Decision(False, "no rule", "the webhook is down"))
    decision = "authorizer.path('/x').check('get')"
    for expression in (
        f"{decision}.reason() == 'no rule'",
        f"{decision}.errored()",
        f"{decision}.error() == 'the webhook is down'",
    ):
        assert authorize(expression, decisions)[0].value is True


def test_two_checks_in_an_expression():
    """The cost limit allows two checks in one expression, even of the same attributes."""
    decisions = (Check(path="/x", verb="get"), Decision(True))
    check = "authorizer.path('/x').check('get').allowed()"
    assert authorize(f"{check} && {check}", decisions)[0].value is True
    assert authorize(f"{check} && {check} && {check}", decisions)[0].is_exceeded


CHECK_FAILURES = {
    "authorizer.path(' ').check('get').allowed()": "path must not be empty",
    "authorizer.group('').resource('').check('get').allowed()": "resource must not be empty",
    "authorizer.serviceAccount('n', 'A').path('/').check('get').allowed()": (
        "Invalid service account name"
    ),
    "authorizer.serviceAccount('a.b', 'a').path('/').check('get').allowed()": (
        "Invalid service account namespace"
    ),
}


@pytest.mark.parametrize("expression", CHECK_FAILURES)
def test_check_failures(expression):
    """A check that cannot be made fails with kube-apiserver's message."""
    assert authorize(expression)[0].failure == CHECK_FAILURES[expression]


OBJECTS = {
    "Object{spec: Object.spec{replicas: 1 + 1, paused: true}}": {
        "spec": {"replicas": 2, "paused": True}
    },
    "Object{metadata: Object.metadata{labels: {'a': 'b'}}}": {"metadata": {"labels": {"a": "b"}}},
    "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c'}]}}": {
        "spec": {"containers": [{"name": "c"}]}
    },
    "Object{?spec: optional.none(), ?data: optional.of({'a': 'b'})}": {"data": {"a": "b"}},
    "Object{}": {},
    "x.a[0] == 3 ? Object{spec: Object.spec{replicas: x.a[0]}} : Object{}": {
        "spec": {"replicas": 3}
    },
    "Object{`a-b`: 1}": {"a-b": 1},
    "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('k8s.io/my~label'), "
    "value: {'a': 'b'}}]": [
        {"op": "add", "path": "/metadata/labels/k8s.io~1my~0label", "value": {"a": "b"}}
    ],
    "[JSONPatch{op: 'move', from: '/a', path: '/b'}][0].from == '/a'": True,
    "has(Object{a: 1}.a) && !has(Object{a: 1}.b) && Object{a: 1}.a == 1": True,
    "Object{a: 1} == Object{a: 1} && dyn(Object.a{}) != dyn(Object.b{})": True,
}  # fmt: skip


@pytest.mark.parametrize("expression", OBJECTS)
def test_constructed_objects(expression):
    """Mutations construct objects and JSON patches."""
    result = run(expression, MUTATIONS)
    assert (result.failure, result.value) == (None, OBJECTS[expression])


OBJECT_PROBLEMS = {
    "Other{}": "1:6: undeclared reference to 'Other' (in container '')",
    "Objects.spec{}": "1:13: undeclared reference to 'Objects.spec' (in container '')",
    "JSONPatch{nope: 1}": "1:17: undefined field 'nope'",
    "JSONPatch{op: 1}": (
        "1:15: expected type of field 'op' is 'string' but provided type is 'int'"
    ),
    "[Object{}, JSONPatch{}]": "1:21: expected type 'Object' but found 'JSONPatch'",
    "Object{?a: 1}": "1:12: expected type 'optional_type(int)' but found 'int'",
    "Object{a 1}": "1:10: Syntax error: mismatched input '1' expecting ':'",
}


@pytest.mark.parametrize("expression", OBJECT_PROBLEMS)
def test_constructed_object_problems(expression):
    """A construction that does not compile is refused with cel-go's message."""
    with pytest.raises(CompileError) as caught:
        compiled(expression, MUTATIONS)
    assert str(caught.value).splitlines()[0] == f"ERROR: <input>:{OBJECT_PROBLEMS[expression]}"


def test_constructions_need_their_environment():
    """Other environments know neither the types nor `jsonpatch.escapeKey`."""
    for expression in ("Object{}", "JSONPatch{}", "jsonpatch.escapeKey('a')"):
        with pytest.raises(CompileError, match="undeclared reference"):
            compiled(expression)
