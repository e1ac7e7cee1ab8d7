"""A newcomer who greps the field's word finds the module at once: the table of finding-code.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kapiserver"
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| (?P<word>[^|]+) \| `(?P<module>[^`]+)` \|$", re.M)
ROWS = [match.groups() for match in ROW.finditer((ROOT / "docs/finding-code.md").read_text())]
BEST = 3
NAME_WEIGHT = 20
"""How many matching lines a match in the module's path is worth: a reader looks at names first."""


def _ranking(word: str) -> list[str]:
    """Modules by how often the word stands in them, the most first."""
    pattern = re.compile(word.replace(" ", "[ _-]?"), re.I)
    scores = {}
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(PACKAGE))
        score = sum(1 for line in path.read_text().splitlines() if pattern.search(line))
        scores[module] = score + NAME_WEIGHT * bool(pattern.search(module))
    return sorted(scores, key=lambda module: (-scores[module], module))


def test_there_are_twenty_questions() -> None:
    """The table has at least twenty rows."""
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("question", "word", "module"), ROWS, ids=[row[0] for row in ROWS])
def test_the_word_leads_to_the_module(question: str, word: str, module: str) -> None:
    """The module is among the first that the word finds."""
    assert module in _ranking(word.strip())[:BEST], _ranking(word.strip())[:BEST]
