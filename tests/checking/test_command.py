"""The command: its exit statuses and outputs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kapiserver.checking.outputs import OUTPUTS
from kapiserver.cli import main
from kapiserver.commands.check import OUTPUTS as NAMES

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
GOOD, BAD = CONFIG_MAP % "a", CONFIG_MAP % "A"
DEPRECATED = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: e}\n"


@pytest.mark.parametrize(
    ("text", "flags", "status"),
    [
        (GOOD, [], 0),
        (BAD, [], 1),
        (DEPRECATED, [], 0),
        (DEPRECATED, ["--strict"], 1),
        (GOOD, ["--strict"], 0),
        (GOOD, ["--release", "v1.31.4"], 0),
        (GOOD, ["missing.yaml"], 2),
    ],
)
def test_exit_status(tmp_path: Path, text: str, flags: list[str], status: int) -> None:
    """0 without errors, 1 with findings that count, 2 if the command cannot run."""
    (tmp_path / "a.yaml").write_text(text)
    assert main(["check", str(tmp_path), *flags]) == status


def test_bad_options() -> None:
    """Options that argparse refuses have the exit status 2."""
    for arguments in (
        ["check"],
        ["check", ".", "--output", "xml"],
        ["check", ".", "--release", "1.30"],
        ["check", ".", "--release", "newest"],
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 2


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` reads standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(["check", "-"]) == 1
    output = capsys.readouterr()
    assert output.out.startswith("-:3:12: error: ConfigMap A: metadata.name: Invalid value: ")
    assert output.out.endswith(" [invalid-value]\n")
    assert output.err == "1 object: 1 error, 0 warnings\n"


def _output(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> str:
    path = tmp_path / "50%,a.yaml"
    path.write_text(f"{BAD}---\n{DEPRECATED}")
    (tmp_path / "good.yaml").write_text(GOOD)
    assert main(["check", str(tmp_path), "--output", name]) == 1
    return capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has an object for each finding."""
    error, warning = json.loads(_output(tmp_path, capsys, "json"))
    assert error.keys() == {
        "file", "line", "column", "severity", "message", "rule", "object",
    }  # fmt: skip
    assert (error["line"], error["column"], error["severity"]) == (3, 12, "error")
    assert (warning["line"], warning["severity"]) == (5, "warning")
    assert warning["rule"] == "deprecated-version"


def test_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JUnit has a suite for each file, and failures for errors only."""
    suites = list(ElementTree.fromstring(_output(tmp_path, capsys, "junit")))
    assert [(suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("2", "1"), ("1", "0"),
    ]  # fmt: skip
    assert [len(suite.findall("testcase/failure")) for suite in suites] == [1, 0]


def test_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SARIF names the rule, the level and the region of each result."""
    (run,) = json.loads(_output(tmp_path, capsys, "sarif"))["runs"]
    error, warning = run["results"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [error["ruleId"], warning["ruleId"]] == ["invalid-value", "deprecated-version"]
    assert rules[error["ruleIndex"]] == "invalid-value"
    place = error["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 3, "startColumn": 12}
    assert place["artifactLocation"]["uri"].endswith("50%25%2Ca.yaml")


def test_github(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Workflow commands escape the characters that separate their parts."""
    error, warning = _output(tmp_path, capsys, "github").splitlines()
    assert error.startswith("::error file=")
    assert "50%25%2Ca.yaml,line=3,col=12,title=invalid-value::ConfigMap A: " in error
    assert warning.startswith("::warning file=")


def test_every_form_is_offered() -> None:
    """`--output` takes the forms that there are."""
    assert set(NAMES) == OUTPUTS.keys()
