"""The events before a fault."""

from __future__ import annotations

from kapiserver.exploring.judging.causes import events_before
from tests.exploring.histories import Builder, ref

DB, CM, OTHER = ref("databases.example.com", "db"), ref("configmaps", "db"), ref("configmaps", "x")


def test_causes() -> None:
    """A write follows the last event of the same name that the operator saw; what the garbage
    collector removes follows the deletion of the owner."""
    run = Builder()
    run.watch(DB.resource)
    run.step(0)
    run.workload(DB, {})
    run.workload(OTHER, {})
    run.operator("create", CM, {"metadata": {"ownerReferences": [{"uid": f"uid of {DB}"}]}})
    run.workload(DB, None)
    run.server(CM, None)
    assert [str(event) for event in events_before(run.build(), 100)] == [
        "step 1: step 0",
        f"the workload: {DB} created",
        f"the workload: {OTHER} created",
        f"the operator: create {CM}: 200 (after {DB} created)",
        f"the workload: {DB} deleted",
        f"the server: {CM} deleted (after {DB} deleted)",
    ]


def test_the_last_ten() -> None:
    """A report has ten events: those before the fault, or around what the plan did."""
    run = Builder()
    for number in range(30):
        run.workload(ref("configmaps", str(number)), {})
    before = events_before(run.build(), 20)
    assert [event.position for event in before] == list(range(11, 21))
    assert [event.position for event in events_before(run.build(), None)] == list(range(21, 31))
    run.mark("was killed")
    for number in range(30):
        run.workload(ref("configmaps", str(number)), None)
    around = events_before(run.build(), None)
    assert [event.position for event in around] == list(range(28, 38))
