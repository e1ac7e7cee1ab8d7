"""Plans and their text form; which plans a history gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.exploring.history import ObjectRef
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.pairs import make_pairs
from kapiserver.exploring.planning.planner import Choice, learn_facts, make_plans
from kapiserver.exploring.planning.plans import ACTIONS, Injection, Plan, Point, parse_plan
from tests.exploring.histories import Builder, ref

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=8)
REFERENCES = st.builds(ObjectRef, TEXTS, TEXTS, TEXTS)
POINTS = st.builds(Point, TEXTS, REFERENCES, TEXTS, st.integers(0, 1000))
WITH_ARGUMENTS = {"expire", "stale", "vary", "refuse", "webhook", "quota"}
"""Actions that do not take every argument."""
INJECTIONS = st.builds(
    Injection,
    st.sampled_from(sorted(set(ACTIONS) - WITH_ARGUMENTS)),
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
        ("refuse@create:secrets:default:a:1=teapot", "'teapot' is not a refusal"),
        ("quota@create:secrets:default:a:1=twice", "'twice' is not how often"),
        ("expire@step::::1=password", "'password' is not a credential"),
    ],
)
def test_text_that_is_no_plan(text: str, message: str) -> None:
    """The error says what to write."""
    with pytest.raises(ValueError, match=message):
        parse_plan(text)


CM, DB = ref("configmaps", "a"), ref("databases.example.com", "db")


def texts(builder: Builder) -> list[str]:
    return [plan.to_text() for plan in make_plans(learn_facts(builder.build(), Names()), Choice())]


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


def test_recreations() -> None:
    """First the operator misses that an object was deleted and created again."""
    run = Builder()
    run.step(0)
    run.workload(DB, {})
    run.step(1)
    run.workload(DB, None)
    run.step(2)
    run.workload(DB, {})
    stops = [text for text in texts(run) if text.startswith("down")]
    assert stops == [
        "down@step::::1@step::::3",
        "down@step::::1@step::::2",
        "down@step::::2@step::::3",
    ]


def test_refused_reads() -> None:
    """The last get and list before a write that changes something, once and for a while; not those
    of the operator's start."""
    run = Builder()
    run.request("list", ref("secrets", ""), status=200)
    run.step(0)
    run.workload(DB, {})
    run.request("get", DB, status=200)
    run.request("get", CM, status=404)
    run.operator("create", CM, {})
    run.request("get", CM, status=200)
    reads = [text for text in texts(run) if text.startswith("refuse@get")]
    point = "refuse@get:configmaps:default:a:1"
    ways = ["internal", "throttled", "timeout", "dropped"]
    assert sorted(reads) == sorted(
        f"{point}={way}{times}" for way in ways for times in ("", "%2A3")
    )


def test_refusals_by_admission() -> None:
    """A quota refuses creations, a webhook all writes: until the operator has settled, and once."""
    run = Builder()
    run.step(0)
    run.operator("create", CM, {})
    run.operator("patch", CM, {"data": {}})
    refused = [text for text in texts(run) if text.startswith(("quota", "webhook"))]
    create, patch = "create:configmaps:default:a:1", "patch:configmaps:default:a:1"
    points = [f"quota@{create}", f"webhook@{create}", f"webhook@{patch}"]
    assert refused == points + [f"{point}=once" for point in points]


def test_expiries() -> None:
    """The operator's token and certificate expire before the last step that writes, after all other
    plans."""
    run = Builder()
    run.step(0)
    run.workload(DB, {})
    run.step(1)
    run.step(2)
    run.workload(DB, {"spec": {}})
    assert texts(run)[-2:] == ["expire@step::::2=token", "expire@step::::2=certificate"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "refuse@get:secrets:default:a:1=dropped",
            "get secrets default/a with a closed connection",
        ),
        (
            "refuse@create:secrets:default:a:1=internal*3",
            "create secrets default/a with 500 Internal Error, as the next 2 requests",
        ),
        (
            "quota@create:secrets:default:a:1=once",
            "create secrets default/a by an exceeded quota, once",
        ),
        (
            "webhook@patch:secrets:default:a:1",
            "patch secrets default/a by a webhook that could not be called, until it had settled, "
            "or 10 times",
        ),
    ],
)
def test_sentences_of_refusals(text: str, sentence: str) -> None:
    """They say what refused, and how often."""
    assert parse_plan(text).sentence == f"The operator was refused {sentence}."


def test_sentence() -> None:
    """A plan says what it does in one sentence."""
    plan = parse_plan("crash-before@create:configmaps:default:a:1+down@step::::2@step::::3")
    assert plan.sentence == (
        "The operator was killed before create configmaps default/a, and restarted; it was killed "
        "before step 3, and started again just before step 4."
    )


def test_pairs() -> None:
    """Two injections at one point make no plan, and neither do those that exclude each other."""
    texts = ("stale@step::::2=step%3A%3A%3A%3A0", "advance@step::::1=4000", "age@step::::1")
    pairs = make_pairs([parse_plan(text) for text in (*texts, "overlap@step::::0")])
    assert [plan.to_text() for plan in pairs] == [f"{text}+overlap@step::::0" for text in texts]
