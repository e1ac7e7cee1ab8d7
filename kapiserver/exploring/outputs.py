"""The forms in which `kapiserver explore` writes what it has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from xml.etree import ElementTree

import msgspec
from msgspec import Struct

from kapiserver.codecs import xml
from kapiserver.exploring.findings import Exploration, Finding
from kapiserver.exploring.planning.plans import Plan


class Report(Struct, frozen=True, kw_only=True):
    """The result of an exploration. `command` returns the command that repeats a plan."""

    exploration: Exploration
    command: Callable[[Plan], str]


Output: TypeAlias = Callable[[Report], str]


def write_text(report: Report) -> str:
    """Return a paragraph for each failing plan, and one line for those that fail in the same way as
    one before."""
    known: set[object] = set()
    parts = []
    for finding in report.exploration.findings:
        signatures = {fault.signature for fault in finding.faults}
        lines = _same_lines(finding) if signatures <= known else _lines(finding, report)
        parts.append("".join(f"{line}\n" for line in lines))
        known |= signatures
    return "\n".join(parts)


def _same_lines(finding: Finding) -> Iterator[str]:
    messages = " ".join(fault.message for fault in finding.faults)
    yield f"{finding.plan.sentence} As above: {messages}"


def _lines(finding: Finding, report: Report) -> Iterator[str]:
    yield finding.plan.sentence
    for fault in finding.faults:
        yield f"  {fault.message} [{fault.oracle}]"
        yield from (f"    {line}" for line in fault.lines)
    yield "  What happened:"
    yield from (f"    {event}" for event in finding.events)
    yield f"  It {finding.certainty}."
    if finding.recording is not None:
        yield f"  kapiserver replay {finding.recording}"
    if finding.plan.injections:
        yield f"  To repeat: {report.command(finding.plan)}"


def write_json(report: Report) -> str:
    """Return a JSON object with the numbers of plans, and `findings`."""
    exploration = report.exploration
    document = {
        "done": exploration.done,
        "left": exploration.left,
        "unreached": exploration.unreached,
        "unrepeated": exploration.unrepeated,
        "findings": [_finding_tree(finding, report) for finding in exploration.findings],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _finding_tree(finding: Finding, report: Report) -> Mapping[str, Any]:
    return {
        "plan": finding.plan.to_text(),
        "sentence": finding.plan.sentence,
        "failed": finding.certainty.failed,
        "runs": finding.certainty.runs,
        "faults": [
            {"oracle": fault.oracle, "message": fault.message, "lines": fault.lines}
            for fault in finding.faults
        ],
        "events": [str(event) for event in finding.events],
        "recording": str(finding.recording or ""),
        "repeat": report.command(finding.plan),
    }


def write_junit(report: Report) -> str:
    """Return JUnit's XML: a test case for each failing plan, and one for those that pass."""
    exploration = report.exploration
    failures = len(exploration.findings)
    counts = {"tests": str(failures + 1), "failures": str(failures)}
    suite = ElementTree.Element("testsuite", {"name": "kapiserver explore", **counts})
    for finding in exploration.findings:
        case = ElementTree.SubElement(suite, "testcase", name=finding.plan.sentence)
        attributes = {
            "type": finding.faults[0].oracle, "message": finding.faults[0].message,
        }  # fmt: skip
        failure = ElementTree.SubElement(case, "failure", attributes)
        failure.text = "\n".join(_lines(finding, report))
    ElementTree.SubElement(suite, "testcase", name=f"{exploration.passed} plans pass")
    return xml.encode(suite)


OUTPUTS: Mapping[str, Output] = {"text": write_text, "json": write_json, "junit": write_junit}
"""The forms by their names in `--output`."""


def count_text(exploration: Exploration) -> str:
    """Return a sentence with the numbers of plans."""
    counts = {
        "done": exploration.done,
        "failed": exploration.failed,
        "failed once and not again": exploration.unrepeated,
        "did not reach their points": exploration.unreached,
        "left": exploration.left,
    }
    required = ("done", "failed")
    parts = [f"{number} {name}" for name, number in counts.items() if number or name in required]
    plain = "; the plain runs failed" if exploration.failed < len(exploration.findings) else ""
    return f"plans: {', '.join(parts)}{plain}"
