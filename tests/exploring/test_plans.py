"""Plans and their text form; which plans a history gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.exploring.history import ObjectRef
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.planner import Choice, make_plans
from kapiserver.exploring.planning.plans import ACTIONS, Injection, Plan, Point, parse_plan
from tests.exploring.histories import Builder, ref

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=8)
REFERENCES = st.builds(ObjectRef, TEXTS, TEXTS, TEXTS)
POINTS = st.builds(Point, TEXTS, REFERENCES, TEXTS, st.integers(0, 1000))
INJECTIONS = st.builds(
    Injection,
    st.sampled_from(sorted(set(ACTIONS) - {"stale", "vary"})),
    POINTS,
    st.none() | POINTS,
    st.text(max_size=8),
)


@given(st.lists(INJECTIONS, max_size=3))
def test_text_of_a_plan(injections: list[Injection]) -> None:
    """The text of a plan gives the plan again."""
    plan = Plan(tuple(injections))
    assert parse_plan(plan.to_text()) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crash@step::::1", "'crash' is not an action"),
        ("down@step", "'step' is not a point"),
        ("down", "'down' is not an injection"),
    ],
)
def test_text_that_is_no_plan(text: str, message: str) -> None:
    """The error says what to write."""
    with pytest.raises(ValueError, match=message):
        parse_plan(text)


CM, DB = ref("configmaps", "a"), ref("databases.example.com", "db")


def texts(builder: Builder) -> list[str]:
    return [plan.to_text() for plan in make_plans(builder.build(), Names(), Choice())]


def test_crashes() -> None:
    """A crash before a write is a plan only if the state is not that after the write before."""
    run = Builder()
    run.step(0)
    run.workload(DB, {"spec": {}})
    run.operator("create", CM, {"data": {}})
    run.operator("patch", DB, {"spec": {}, "status": {}}, subresource="status")
    assert [text for text in texts(run) if text.startswith("crash")] == [
        "crash-commit@create:configmaps:default:a:1",
        "crash-before@create:configmaps:default:a:1",
        "crash-commit@patch:databases.example.com/status:default:db:1",
    ]


def test_writes_without_effect() -> None:
    """A write that commits nothing makes no plan, and counts for the numbers of points."""
    run = Builder()
    run.step(0)
    run.request("create", CM, status=409)
    run.operator("create", CM, {})
    assert "crash-commit@create:configmaps:default:a:2" in texts(run)
    assert "crash-commit@create:configmaps:default:a:1" not in texts(run)


def test_stops() -> None:
    """The operator is down during each later step in which the workload writes."""
    run = Builder()
    run.step(0)
    run.workload(DB, {})
    run.step(1)
    run.step(2)
    run.workload(DB, None)
    stops = [text for text in texts(run) if text.startswith("down")]
    assert stops == ["down@step::::2@step::::3"]


def test_sentence() -> None:
    """A plan says what it does in one sentence."""
    plan = parse_plan("crash-before@create:configmaps:default:a:1+down@step::::2@step::::3")
    assert plan.sentence == (
        "The operator was killed before create configmaps default/a, and restarted; it was killed "
        "before step 3, and started again just before step 4."
    )
