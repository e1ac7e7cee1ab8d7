"""Decision records have one form and one page, and what refers to one exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generator.decisions import FOLDER, MalformedRecord, read_record, record_files
from tests.docs.blocks import ROOT

_NAMED = re.compile(
    r"\b(?:[Dd]ecisions?|[Rr]ecords?) \[?(\d{3})\b(?:\]\([^)]*\))?(?:(?:,| and| to) \[?(\d{3})\b)?"
)
"""A record that a text names by its number, such as `decision 063` and `records 054 and 092`."""
_LINKED = re.compile(r"\b(\d{3}-[a-z0-9-]+\.md)\b")
_LINES = 60
_HEAD = "# 999: Title\n\nStatus: {status}. Subject: {subject}.\n\nDecision: {decision}\n"


@pytest.mark.parametrize("path", record_files(), ids=lambda path: path.stem)
def test_form_of_a_record(path: Path) -> None:
    """A record begins as the index needs it, and has a page."""
    read_record(path)
    lines = path.read_text().count("\n")
    assert lines <= _LINES, f"{path.name} has {lines} lines; leave its journal to history"


def test_numbers_are_unique() -> None:
    """No two records have the same number."""
    numbers = [path.name[:3] for path in record_files()]
    assert len(numbers) == len(set(numbers)), numbers


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("# 999 Title\n", "the first line is not `# 999: Title`"),
        ("# 998: Title\n", "the first line is not `# 999: Title`"),
        ("# 999: Title\n\n**Question.** Why?\n", "the second paragraph is not `Status: STATUS"),
        (_HEAD.format(status="done", subject="Storage", decision="Yes."), "the second paragraph"),
        (_HEAD.format(status="accepted", subject="Rust", decision="Yes."), "the subject is none"),
        (_HEAD.format(status="accepted", subject="Storage", decision="Yes"), "the third paragraph"),
    ],
)
def test_malformed_record(tmp_path: Path, text: str, detail: str) -> None:
    """The error says which record and which paragraph is malformed, and what to write."""
    path = tmp_path / "999-title.md"
    path.write_text(text)
    with pytest.raises(MalformedRecord, match=re.escape(f"docs/decisions/999-title.md: {detail}")):
        read_record(path)


def test_references_to_records() -> None:
    """Every record that code or a document names exists."""
    files = {path.name for path in record_files()}
    numbers = {name[:3] for name in files}
    for path in _texts():
        text = path.read_text(encoding="utf-8")
        named = {number for pair in _NAMED.findall(text) for number in pair if number}
        assert named <= numbers, f"{path} names {named - numbers}, which is no decision record"
        if path.suffix == ".md":
            linked = set(_LINKED.findall(text)) - {"NNN-name.md"}
            assert linked <= files, f"{path} links to {linked - files}, which does not exist"


def _texts() -> Iterator[Path]:
    """Yield the documents and the modules that may name a record."""
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    for folder in ("kapiserver", "tests", "docs", "examples"):
        yield from (ROOT / folder).rglob("*.py")
    yield ROOT / "Makefile"


def test_index_lists_every_record() -> None:
    """The index has a row for each record."""
    index = (FOLDER / "index.md").read_text()
    assert [path.name for path in record_files() if f"]({path.name})" not in index] == []
