"""The forms of a report."""

from __future__ import annotations

from xml.etree import ElementTree

from kapiserver.exploring.findings import Exploration, Finding
from kapiserver.exploring.judging.fault import Fault
from kapiserver.exploring.outputs import Report, write_junit
from kapiserver.exploring.planning.plans import parse_plan
from kapiserver.exploring.planning.reduction import Certainty


def test_passed_plans() -> None:
    """A plan whose points did not come, or that failed once, does not pass."""
    finding = Finding(
        plan=parse_plan("crash-idle@step::::1"),
        faults=[Fault(oracle="exit", message="The operator exited with status 1.")],
        events=[],
        certainty=Certainty(3, 3),
    )
    exploration = Exploration(findings=[finding], done=10, unreached=2, unrepeated=3)
    report = Report(exploration=exploration, command=lambda plan: plan.to_text())
    failed, passed = ElementTree.fromstring(write_junit(report)).findall("testcase")
    assert failed.find("failure") is not None
    assert passed.get("name") == "4 plans pass"
