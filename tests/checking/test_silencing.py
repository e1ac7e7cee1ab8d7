"""Comments and files that silence rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from kapiserver.checking.silencing import read_file_rules
from kapiserver.cli import main
from tests.checking.checks import check_paths, check_text, rules

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: a, image: b}]
  volumes:
  - name: v
    configMap: {name: x}%s
  imagePullSecrets: [{name: z}]
"""


def _comment(rules: str) -> str:
    return f" # kapiserver-check: ignore {rules}"


@pytest.mark.parametrize(
    ("before", "comment", "left"),
    [
        ("", "", ["missing-config-map", "missing-secret"]),
        ("", _comment("missing-config-map"), ["missing-secret"]),
        ("", _comment("missing-secret"), ["missing-config-map"]),
        ("", _comment("missing-config-map, missing-secret"), []),
        ("", _comment("missing-role"), ["missing-config-map", "missing-secret"]),
        (f"{_comment('missing-secret').strip()}\n", "", ["missing-config-map"]),
        (f"---\n# The pod\n{_comment('missing-secret').strip()}\n", "", ["missing-config-map"]),
        (f"a: 1{_comment('missing-secret')}\n---\n", "",
         ["not-an-object", "missing-config-map", "missing-secret"]),
    ],
)  # fmt: skip
def test_comments(before: str, comment: str, left: list[str]) -> None:
    """A comment silences rules for its line and the next one, at the head for its document."""
    assert rules(check_text(before + POD % comment)) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("missing-secret\n", ["missing-config-map", "missing-config-map"]),
        ("# comment\n\nmissing-secret  # why\nmissing-config-map b/*\n", ["missing-config-map"]),
        ("missing-secret *.json\n", ["missing-config-map", "missing-secret"] * 2),
    ],
)
def test_files(tmp_path: Path, text: str, left: list[str]) -> None:
    """A file silences rules for the files below its folder that fit a pattern."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a.yaml").write_text(POD % "")
    (tmp_path / "b/c.yaml").write_text((POD % "").replace("name: p", "name: q"))
    (tmp_path / ".kapiserver-check").write_text(text)
    file_rules = read_file_rules([str(tmp_path)])
    assert rules(check_paths(tmp_path, file_rules=file_rules)) == left


def test_unknown_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with an unknown rule is an error of the command."""
    (tmp_path / ".kapiserver-check").write_text("missing-everything\n")
    assert main(["check", str(tmp_path)]) == 2
    assert "line 1: 'missing-everything' is not a rule" in capsys.readouterr().err
