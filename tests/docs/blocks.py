"""The code blocks of the documents, and the commands of a console block.

A block that no test can run has the line `<!-- not run: REASON -->` above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_FILE_NAME = re.compile(r"# (\S+\.\w+)\n")
_HERE_DOCUMENT = re.compile(r"<<-?'?(\w+)'?")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `reason` says why no test runs it; "" if a test does."""

    language: str
    text: str
    reason: str

    @property
    def file_name(self) -> str:
        """The file that the first line names in a comment; "" if none."""
        match = _FILE_NAME.match(self.text)
        return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the output that the page shows below it."""

    text: str
    output: str


def pages() -> list[Path]:
    """Return README, CONTRIBUTING and the pages of the site."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *docs]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order."""
    return [
        Block(match["language"], match["text"], match["reason"] or "")
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a console block: each begins with `$ ` and ends where its quotes, its
    here-document and its continued lines end."""
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        assert line.startswith("$ "), line
        command = [line.removeprefix("$ ")]
        while _continues(command):
            command.append(lines.pop(0))
        output = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        yield Command("\n".join(command), "\n".join(output))


def _continues(command: list[str]) -> bool:
    word = _HERE_DOCUMENT.search(command[0])
    if word is not None:
        return command[-1] != word[1] or len(command) == 1
    return "\n".join(command).count("'") % 2 == 1 or command[-1].endswith("\\")
