"""The words of docs/finding-code.md lead to their modules with grep."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kapiserver"
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| (?P<word>[^|]+) \| `(?P<module>[^`]+)` \|$", re.M)
ROWS = [match.groups() for match in ROW.finditer((ROOT / "docs/finding-code.md").read_text())]
BEST = 3
NAME_WEIGHT = 20
"""The number of lines that a match in the module's path counts for."""


@cache
def _texts() -> dict[str, str]:
    """The text of each module in lower case, which regular expressions search ten times as fast as
    text of any case, by its path."""
    files = PACKAGE.rglob("*.py")
    return {str(path.relative_to(PACKAGE)): path.read_text().lower() for path in files}


def _ranking(word: str) -> list[str]:
    """Modules sorted by the number of lines that contain the word, in descending order."""
    pattern = re.compile(word.lower().replace(" ", "[ _-]?"))
    scores = {}
    for module, text in _texts().items():
        lines = text.splitlines() if pattern.search(text) else ()
        score = sum(1 for line in lines if pattern.search(line))
        scores[module] = score + NAME_WEIGHT * bool(pattern.search(module))
    return sorted(scores, key=lambda module: (-scores[module], module))


def test_there_are_twenty_questions() -> None:
    """The table has at least twenty rows."""
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("question", "word", "module"), ROWS, ids=[row[0] for row in ROWS])
def test_the_word_leads_to_the_module(question: str, word: str, module: str) -> None:
    """The module is among the first three in the ranking of its word."""
    assert module in _ranking(word.strip())[:BEST]
