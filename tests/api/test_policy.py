"""Validation, strategy and columns of pod disruption budgets, and validation of conditions."""

from datetime import UTC, datetime

import pytest

from kapiserver.api import names
from tests.objects import GONE, SCHEME, changed, defaulted, strategy, texts

BUDGET = {
    "kind": "PodDisruptionBudget",
    "apiVersion": "policy/v1",
    "metadata": {"name": "x", "namespace": "n"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    "status": {},
}
CASES = [
    ("", GONE, []),
    ("spec/minAvailable", "50%", []),
    (
        "spec/minAvailable",
        -1,
        ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
    ),
    (
        "spec/minAvailable",
        "101%",
        ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    (
        "spec/minAvailable",
        "half",
        [f'spec.minAvailable: Invalid value: "half": {names.percent("half")[0]}'],
    ),
    (
        "spec/maxUnavailable",
        1,
        [
            'spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},'
            '"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and '
            "maxUnavailable cannot be both set"
        ],
    ),
    (
        "spec/unhealthyPodEvictionPolicy",
        "Odd",
        [
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Odd": supported values: '
            '"AlwaysAllow", "IfHealthyBudget"'
        ],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    kind_strategy = strategy("poddisruptionbudgets")
    obj = defaulted(changed(BUDGET, path, value))
    kind_strategy.prepare_for_create(obj)
    assert texts(kind_strategy.validate(obj)) == messages
    assert texts(kind_strategy.validate_update(obj, obj)) == messages


def test_unconditional_updates_are_rejected():
    """Updates need a resourceVersion."""
    kind_strategy = strategy("poddisruptionbudgets")
    assert not kind_strategy.allow_unconditional_update
    assert not strategy("poddisruptionbudgets/status").allow_unconditional_update


CONDITION = {
    "type": "A",
    "status": "True",
    "reason": "R",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
AT = "status.conditions[0]"
CONDITIONS = [
    ([CONDITION], []),
    ([CONDITION, CONDITION], ['status.conditions[1].type: Duplicate value: "A"']),
    (
        [{}],
        [
            f'{AT}.type: Invalid value: "": name part must be non-empty',
            f'{AT}.type: Invalid value: "": {names.qualified_name("")[1]}',
            f'{AT}.status: Unsupported value: "": supported values: "False", "True", "Unknown"',
            f"{AT}.lastTransitionTime: Required value: must be set",
            f"{AT}.reason: Required value: must be set",
        ],
    ),
    (
        [{**CONDITION, "observedGeneration": -1, "message": "x" * 32769}],
        [
            f"{AT}.observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            f"{AT}.message: Too long: may not be more than 32768 bytes",
        ],
    ),
]


@pytest.mark.parametrize(("conditions", "messages"), CONDITIONS)
def test_conditions(conditions, messages):
    """Conditions need a type, a time and a reason, and their types are unique."""
    new = {**BUDGET, "status": {"conditions": conditions}}
    kind_strategy = strategy("poddisruptionbudgets/status")
    assert texts(kind_strategy.validate_update(new, BUDGET)) == messages


@pytest.mark.parametrize(("reason", "fits"), [("A_b:c,d", True), ("A:", False), ("1", False)])
def test_reasons(reason, fits):
    """A condition's reason has the form of an identifier."""
    new = {**BUDGET, "status": {"conditions": [{**CONDITION, "reason": reason}]}}
    errors = strategy("poddisruptionbudgets/status").validate_update(new, BUDGET)
    assert bool(errors) is not fits


def test_cells():
    """Columns show required, tolerated and allowed disruptions."""
    columns = SCHEME.columns("policy", "PodDisruptionBudget")
    obj = {**BUDGET, "status": {"disruptionsAllowed": 2}}
    row = columns.cells(obj, datetime(2026, 1, 1, tzinfo=UTC))
    assert row[:4] == ["x", "1", "N/A", 2]
