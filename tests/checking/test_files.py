"""What paths lead to: files, folders, links, bad input, kustomizations."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kapiserver.checking.reading import files
from tests.checking.checks import check_paths, check_text, places, rules

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
BAD = CONFIG_MAP % "A"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def test_folders_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    """All files of YAML and JSON below a folder are read, hidden ones left out."""
    for name in ("b/c.yml", "a.yaml", "d.txt", ".hidden.yaml", ".git/e.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(BAD)
    (tmp_path / "b/z.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap"}')
    findings = check_paths(tmp_path)
    assert [Path(finding.file).name for finding in findings] == [
        "a.yaml",
        "c.yml",
        "c.yml",
        "z.json",
    ]


def test_bad_files_do_not_hide_others(tmp_path: Path) -> None:
    """Each bad file is one finding, and the rest is checked."""
    (tmp_path / "1.yaml").write_text("a: [\n---\n" + BAD)
    (tmp_path / "2.yaml").write_text(BOMB)
    (tmp_path / "3.yaml").write_bytes(b"\x00\x01\xff\xfe")
    (tmp_path / "4.yaml").write_text("just text\n")
    (tmp_path / "5.yaml").symlink_to(tmp_path / "5.yaml")
    (tmp_path / "6.yaml").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "7.yaml")
    (tmp_path / "8.yaml").write_text("[" * 10_000)
    findings = check_paths(tmp_path)
    assert [(Path(finding.file).name, finding.rule) for finding in findings] == [
        ("1.yaml", "not-yaml"),
        ("1.yaml", "invalid-value"),
        ("2.yaml", "not-yaml"),
        ("3.yaml", "not-yaml"),
        ("4.yaml", "not-an-object"),
        ("5.yaml", "link-cycle"),
        ("6.yaml", "unreadable-file"),
        ("7.yaml", "unreadable-file"),
        ("8.yaml", "not-yaml"),
    ]


def test_cycle_of_links(tmp_path: Path) -> None:
    """A link to a folder that contains it is a finding; other links are followed."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    (tmp_path / "a/bad.yaml").write_text(BAD)
    (tmp_path / "again").symlink_to(tmp_path / "a/b")
    findings = check_paths(tmp_path)
    assert {Path(finding.file).name for finding in findings if finding.rule == "link-cycle"} == {
        "up",
        "b",
    }
    assert "invalid-value" in rules(findings)


def test_large_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document above the limit of requests is a finding, as is a file above the limit of files;
    neither hides the others."""
    large = CONFIG_MAP % "large" + "data:\n" + "".join(
        f"  key{number}: {'x' * 1000}\n" for number in range(4000)
    )  # fmt: skip
    (tmp_path / "a.yaml").write_text(f"{BAD}---\n{large}---\n{BAD}")
    assert rules(check_paths(tmp_path)) == [
        "invalid-value", "too-large", "duplicate-object", "invalid-value",
    ]  # fmt: skip
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1000)
    (tmp_path / "b.yaml").write_text(BAD)
    assert rules(check_paths(tmp_path)) == ["too-large", "invalid-value"]


@pytest.mark.parametrize(("name", "limit"), [("MAX_FILES", 1), ("MAX_BYTES", len(BAD) + 1)])
def test_too_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    """What is behind the limit of files, or of their bytes together, is not read."""
    monkeypatch.setattr(files, name, limit)
    for file in ("a.yaml", "b.yaml", "c.yaml"):
        (tmp_path / file).write_text(BAD)
    assert rules(check_paths(tmp_path)) == ["invalid-value", "too-large"]


def test_missing_path(tmp_path: Path) -> None:
    """A path that does not exist is an error of the command, not a finding."""
    with pytest.raises(FileNotFoundError):
        check_paths(tmp_path / "missing")


def test_documents_that_are_no_objects() -> None:
    """Empty documents are left out; other values are findings."""
    assert check_text("# only a comment\n---\n\n---\nnull\n") == []
    assert places(check_text("---\n1\n---\nkind: List\n---\n- a\n")) == [
        (1, 1, "not-an-object"), (3, 1, "not-an-object"), (5, 1, "not-an-object"),
    ]  # fmt: skip


def test_json_is_read_as_json() -> None:
    """JSON has the same findings, and the same places."""
    text = '{"apiVersion": "v1",\n "kind": "ConfigMap",\n "metadata": {"name": "a",\n  "nam": 1}}'
    assert places(check_text(text)) == [(4, 3, "unknown-field")]
    repeated = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "name": "b"}}'
    assert places(check_text(repeated)) == [(1, 69, "duplicate-field")]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")
def test_kustomization(tmp_path: Path) -> None:
    """A folder with a kustomization is built; its files are not read by themselves."""
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\nnamePrefix: pre-\n")
    (tmp_path / "a.yaml").write_text(CONFIG_MAP % "a" + "dat: {}\n")
    (tmp_path / "unused.yaml").write_text("a: [")
    (finding,) = check_paths(tmp_path)
    assert (finding.object, finding.rule) == ("ConfigMap pre-a", "unknown-field")
    assert finding.file.endswith("kustomization.yaml")
    (tmp_path / "a.yaml").unlink()
    assert rules(check_paths(tmp_path)) == ["kustomization"]


def test_kustomization_without_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kustomize and kubectl, a kustomization is a warning."""
    monkeypatch.setenv("PATH", "")
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    (finding,) = check_paths(tmp_path)
    assert (finding.rule, finding.severity) == ("kustomization", "warning")
