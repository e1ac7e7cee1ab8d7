"""What is wrong with a run."""

from __future__ import annotations

import pytest

from kapiserver.exploring.history import OPERATOR, OTHER_ANNOTATION, Exit, History, Request
from kapiserver.exploring.judging.invariants import Objects, violations
from kapiserver.exploring.judging.oracles import Run, judge, learn_reference
from kapiserver.exploring.judging.states import learn_expectation
from kapiserver.exploring.planning.plans import Injection, Plan, parse_plan, step_point
from kapiserver.exploring.planning.variation import Variation
from tests.exploring.histories import Builder, Tree, ref

CM, DB, PVC = (
    ref("configmaps", "a"),
    ref("databases.example.com", "db"),
    ref("persistentvolumeclaims", "data"),
)
CRASH = parse_plan("crash-commit@create:configmaps:default:a:1")


def faults(plain: Builder, run: History, plan: Plan = CRASH) -> list[tuple[str, str]]:
    """Return the oracles and messages of a run that is judged by a plain one."""
    histories = [plain.build()] * 3
    reference = learn_reference(histories, learn_expectation(histories))
    judged = judge(Run(plan=plan, history=run, reference=reference))
    return [(fault.oracle, fault.message) for fault in judged]


def test_a_run_like_the_plain_ones() -> None:
    """Nothing is wrong with it."""
    plain = Builder()
    plain.operator("create", CM, {})
    assert faults(plain, plain.build()) == []


def owned(by: str) -> Tree:
    return {"metadata": {"ownerReferences": [{"uid": f"uid of {by}"}]}}


def test_deletions() -> None:
    """An object that the operator never deletes in plain runs must stay, also if the garbage
    collector removes it because its owner was deleted by the operator."""
    plain, run = Builder(), Builder()
    for builder in (plain, run):
        builder.workload(DB, {})
        builder.operator("create", CM, {})
        builder.operator("create", PVC, owned(str(CM)))
    run.operator("delete", CM)
    run.server(PVC, None)
    run.operator("create", CM, {})
    run.operator("create", PVC, owned(str(CM)))
    assert faults(plain, run.build()) == [
        (
            "deletion",
            f"The operator deleted and recreated {item}, which it never deletes in the plain runs.",
        )
        for item in (CM, PVC)
    ]


def test_deletions_of_successors() -> None:
    """An object that the operator deletes once in plain runs may be deleted once: its successor of
    the same name must stay."""
    plain, run = Builder(), Builder()
    for builder in (plain, run):
        builder.operator("create", PVC, {})
        builder.operator("delete", PVC)
        builder.operator("create", PVC, {"metadata": {"uid": "second"}})
    assert faults(plain, run.build()) == []
    run.operator("delete", PVC)
    run.operator("create", PVC, {"metadata": {"uid": "third"}})
    message = (
        f"The operator deleted and recreated {PVC}, which it deletes only once in the plain runs."
    )
    assert faults(plain, run.build()) == [("deletion", message)]


def test_deletions_of_what_was_created_once_more() -> None:
    """An operator that has seen an old state may create an object once more, and then delete it.
    What it has created in the plain runs, too, must stay."""
    plain, run = Builder(), Builder()
    for builder in (plain, run):
        builder.operator("create", PVC, {"metadata": {"uid": "first"}})
        builder.operator("delete", PVC)
    run.operator("create", PVC, {"metadata": {"uid": "second"}})
    run.operator("delete", PVC)
    assert faults(plain, run.build()) == []
    for builder in (plain, run):
        builder.operator("create", CM, {"metadata": {"uid": "third"}})
    run.operator("delete", CM)
    assert [oracle for oracle, _ in faults(plain, run.build())] == ["deletion", "end state"]


def test_deletions_by_another_value() -> None:
    """A value that a plan changes, and changes back, may delete what the plain runs keep."""
    plain, run = Builder(), Builder()
    plain.operator("create", PVC, {})
    run.operator("create", PVC, {})
    run.operator("delete", PVC)
    run.operator("create", PVC, {})
    variation = Variation(object=DB, path=("spec", "replicas"), value=3)
    vary = Plan((Injection("vary", step_point(1), argument=variation.to_text()),))
    assert faults(plain, run.build(), vary) == []


def test_deletions_of_the_workload() -> None:
    """What the workload deletes, and what the garbage collector removes then, is no fault of the
    operator, even though the operator removes the finalizer."""
    plain, run = Builder(), Builder()
    for builder in (plain, run):
        builder.workload(DB, {})
        builder.operator("create", CM, owned(str(DB)))
    run.workload(DB, {"metadata": {"deletionTimestamp": "now"}})
    run.operator("patch", DB)
    run.server(CM, None)
    assert [oracle for oracle, _ in faults(plain, run.build())] == ["end state"]


def test_leftovers() -> None:
    """A finalizer, or an object whose owner is gone."""
    plain, run = Builder(), Builder()
    run.operator("create", PVC, owned("nobody"))
    run.workload(DB, {"metadata": {"deletionTimestamp": "now", "finalizers": ["example.com/f"]}})
    messages = [message for oracle, message in faults(plain, run.build()) if oracle == "leftover"]
    assert messages == [
        f"{PVC} is left over: its owner is gone.",
        f"{DB} is deleted, but its finalizer example.com/f is left over.",
    ]


def test_exits_and_tracebacks() -> None:
    """An exit is a fault, once for each status; so is an error of the program in its output, not
    one of a request."""
    output = "Traceback ...\nKeyError: 'spec'\nApiException: (409)\npanic: boom\n"
    run = Builder().build(exits=[Exit(1, 3), Exit(2, 3)], output=output)
    assert faults(Builder(), run) == [
        ("exit", "The operator exited with status 3."),
        ("traceback", "The operator logged the error KeyError: 'spec'"),
        ("traceback", "The operator logged the error panic: boom"),
    ]


def test_forbidden_requests() -> None:
    """RBAC refuses a request that no plain run sends; a quota or an injected refusal, which the
    injector sees, does not count."""
    run = Builder()
    run.request("create", DB, status=403)
    history = run.build()
    history.forbidden = [
        Request(position=9, actor=OPERATOR, verb="list", object=CM, status=403),
    ]
    assert faults(Builder(), history) == [
        ("forbidden", f"The operator may not list {CM}: its RBAC does not allow it.")
    ]


def test_writes_while_the_server_refuses() -> None:
    """An operator whose last write is refused again and again repeats those before it."""
    run = Builder()
    for _ in range(25):
        run.request("create", DB, status=409, digest=1)
        run.request("create", CM, status=403, digest=2, injected="quota")
    assert faults(Builder(), run.build()) == []


def test_writes_without_effect() -> None:
    """The same write again and again."""
    run = Builder()
    for _ in range(25):
        run.request("patch", DB, status=200, digest=1)
    assert faults(Builder(), run.build()) == [
        ("unsettled", f"The operator sent patch {DB} 20 times without an effect.")
    ]


def test_a_fight() -> None:
    """Two writers that set a field back."""
    plain, run = Builder(), Builder()
    plain.workload(CM, {"data": {"by": "operator"}})
    for number in range(21):
        run.operator("update", CM, {"data": {"by": ("operator", "other")[number % 2]}})
    assert faults(plain, run.build()) == [
        ("unsettled", f"{CM} was set back to an earlier state 10 times.")
    ]


def test_the_end() -> None:
    """The end state, a workload that does not reach its end, an operator that does not settle."""
    plain = Builder()
    plain.operator("create", CM, {})
    assert faults(plain, Builder().build()) == [
        ("end state", "The end state is not that of the plain runs.")
    ]
    unreached = Builder().build(unreached="step 2 failed: x\nlast seen")
    assert faults(plain, unreached) == [
        ("unreached", "The workload did not reach its end: step 2 failed: x.")
    ]
    assert faults(plain, plain.build(settled=False)) == [
        ("unsettled", "The operator did not settle.")
    ]


def test_a_lost_change() -> None:
    """The operator removes what another writer has set."""
    run = Builder()
    run.other(CM, {"metadata": {"annotations": {OTHER_ANNOTATION: "yes"}}})
    run.operator("update", CM, {})
    judged = faults(Builder(), run.build())
    assert [oracle for oracle, _ in judged] == ["lost change", "end state"]


def a_config_map_is_never_alone(objects: Objects) -> bool:
    return len(objects.list("configmaps")) != 1


def test_invariants() -> None:
    """A function that is false at one revision, although it is true at the end."""
    run = Builder()
    run.operator("create", CM, {})
    run.operator("create", ref("configmaps", "b"), {})
    violated = list(violations(run.build(), [a_config_map_is_never_alone]))
    assert violated == [(a_config_map_is_never_alone, "it returned False", 2)]


@pytest.mark.parametrize(
    ("counts", "is_fault"),
    [
        ((2, 4, 8, 16, 32, 64), True),
        ((2, 3, 4, 5, 6, 7), True),
        ((4, 4, 5, 4, 4, 5), False),
        ((20, 21, 22, 23, 24, 25), False),
        ((0, 0, 0, 0, 0, 0), False),
        ((), False),
    ],
)
def test_a_growing_rate(counts: tuple[int, ...], is_fault: bool) -> None:
    """More requests in each part of an hour in which nothing changes, at least twice as many."""
    run = Builder().build(idle_requests=counts)
    assert [oracle for oracle, _ in faults(Builder(), run)] == ["rate"] * is_fault
