"""The forms in which `kapiserver check` writes its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from xml.etree import ElementTree

import msgspec
from msgspec import Struct

from kapiserver import __version__
from kapiserver.checking.finding import ERROR, RULES, Finding
from kapiserver.codecs import xml

_INDENT = 2
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class Report(Struct, frozen=True, kw_only=True):
    """The result of a check. `files` are the names of all files that were read."""

    findings: Sequence[Finding]
    files: Sequence[str] = ()


Output: TypeAlias = Callable[[Report], str]


def write_text(report: Report) -> str:
    """Return a line for each finding: `file:line:column: severity: object: message [rule]`. Further
    lines of a message are indented."""
    return "".join(f"{finding}".replace("\n", "\n    ") + "\n" for finding in report.findings)


def write_json(report: Report) -> str:
    """Return a JSON list with an object for each finding, whose members are those of Finding."""
    data = msgspec.json.encode(report.findings)
    return msgspec.json.format(data, indent=_INDENT).decode() + "\n"


def write_github(report: Report) -> str:
    """Return workflow commands, which GitHub Actions shows beside the lines of the files."""
    return "".join(f"{_github_command(finding)}\n" for finding in report.findings)


def _github_command(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": str(finding.line),
        "col": str(finding.column),
        "title": finding.rule,
    }
    text = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    about = f"{finding.object}: " if finding.object else ""
    return f"::{finding.severity} {text}::{_escape_data(f'{about}{finding.message}')}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def write_junit(report: Report) -> str:
    """Return JUnit's XML: a suite for each file, a test case for each finding, and one that passes
    for a file without findings. An error is a failure; a warning is output of a case that passes.
    """
    root = ElementTree.Element("testsuites", name="kapiserver check")
    by_file: dict[str, list[Finding]] = {name: [] for name in report.files}
    for finding in report.findings:
        by_file.setdefault(finding.file, []).append(finding)
    for name, findings in by_file.items():
        errors = sum(finding.severity == ERROR for finding in findings)
        attributes = {
            "name": name, "tests": str(len(findings) or 1), "failures": str(errors),
        }  # fmt: skip
        suite = ElementTree.SubElement(root, "testsuite", attributes)
        for finding in findings:
            _add_junit_case(suite, finding)
        if not findings:
            ElementTree.SubElement(suite, "testcase", classname=name, name="no findings")
    return xml.encode(root)


def _add_junit_case(suite: ElementTree.Element, finding: Finding) -> None:
    name = f"{finding.object or finding.file}: {finding.rule} in line {finding.line}"
    case = ElementTree.SubElement(suite, "testcase", classname=finding.file, name=name)
    if finding.severity == ERROR:
        attributes = {"type": finding.rule, "message": finding.message}
        ElementTree.SubElement(case, "failure", attributes).text = str(finding)
    else:
        ElementTree.SubElement(case, "system-out").text = str(finding)


def write_sarif(report: Report) -> str:
    """Return a SARIF 2.1.0 log with one run, for code scanning."""
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "kapiserver check",
        "version": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_sarif_result(finding, rules) for finding in report.findings],
    }
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=_INDENT).decode() + "\n"


def _sarif_result(finding: Finding, rules: Sequence[str]) -> Mapping[str, Any]:
    about = f"{finding.object}: " if finding.object else ""
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.severity,
        "message": {"text": f"{about}{finding.message}"},
    }
    if finding.line:
        region = {"startLine": finding.line, "startColumn": finding.column}
        place = {"artifactLocation": {"uri": _uri(finding.file)}, "region": region}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(file.replace("\\", "/"))


OUTPUTS: Mapping[str, Output] = {
    "text": write_text,
    "json": write_json,
    "junit": write_junit,
    "sarif": write_sarif,
    "github": write_github,
}
"""The forms by their names in `--output`."""


def count_text(findings: Iterable[Finding], objects: int) -> str:
    """Return a sentence with the numbers of objects, errors and warnings."""
    severities = [finding.severity for finding in findings]
    errors = severities.count(ERROR)
    warnings = len(severities) - errors
    counts = f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
    return f"{_counted(objects, 'object')}: {counts}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
