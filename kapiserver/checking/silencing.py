"""Leaves out findings that a comment or a file silences.

A comment `# kapiserver-check: ignore RULE, RULE` concerns its own line and the next one; before the
first line of a document's object it concerns the document. The file `.kapiserver-check` in a folder
that is checked, or in the working directory, has a rule in each line, and after it a pattern of
paths below the folder, if it does not concern all of them.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from kapiserver.checking.finding import RULES, Finding
from kapiserver.checking.reading.documents import Document

FILE = ".kapiserver-check"
MAX_BYTES = 1 << 20

_MARK = b"kapiserver-check:"
_COMMENT = re.compile(r"#\s*kapiserver-check:\s*ignore\s+([\w,\s-]+)")
_SEPARATORS = re.compile(r"[\s,]+")


class FileRule(Struct, frozen=True):
    """A line of a file: a rule that is silent for the files below a folder that fit a pattern."""

    rule: str
    folder: str
    pattern: str = "*"

    def silences(self, finding: Finding) -> bool:
        """Report whether the finding is left out."""
        path = os.path.relpath(os.path.abspath(finding.file), self.folder)
        is_below = not path.startswith("..")
        return finding.rule == self.rule and is_below and fnmatch.fnmatch(path, self.pattern)


def read_file_rules(paths: Sequence[str]) -> list[FileRule]:
    """Return the rules of the files of the working directory and of the folders among the paths.
    Raises OSError, and ValueError for an unknown rule."""
    folders = {os.path.abspath(path) for path in (".", *paths) if os.path.isdir(path)}
    files = [Path(folder, FILE) for folder in sorted(folders)]
    return [rule for file in files if file.is_file() for rule in _read_file(file)]


def _read_file(path: Path) -> Iterable[FileRule]:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        rule, *pattern = line.partition("#")[0].split(maxsplit=1)[:2] or [""]
        if not rule:
            continue
        if rule not in RULES:
            raise ValueError(f"{path}, line {number}: {rule!r} is not a rule")
        yield FileRule(rule, str(path.parent), *(part.strip() for part in pattern))


def without_silenced(
    findings: Iterable[Finding], documents: Iterable[Document], file_rules: Sequence[FileRule]
) -> list[Finding]:
    """Return the findings that neither a comment in the documents nor a file silences."""
    comments = _comments(documents)
    return [
        finding
        for finding in findings
        if finding.rule not in comments.get((finding.file, finding.line), ())
        and not (finding.file and any(rule.silences(finding) for rule in file_rules))
    ]


def _comments(documents: Iterable[Document]) -> Mapping[tuple[str, int], set[str]]:
    """Return the rules that comments silence, by file and line."""
    silenced: dict[tuple[str, int], set[str]] = {}
    for document in documents:
        if _MARK in document.text:
            for number, rules in _comments_of(document.text.decode(errors="replace").split("\n")):
                place = (document.file, document.first_line + number)
                silenced.setdefault(place, set()).update(rules)
    return silenced


def _comments_of(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the index of each line that a comment concerns, with the rules of the comment."""
    is_head = True
    for number, line in enumerate(lines):
        is_head = is_head and (not line.strip() or line.startswith(("#", "---")))
        match = _COMMENT.search(line)
        if match is not None:
            rules = _SEPARATORS.split(match[1])
            for line_number in range(len(lines)) if is_head else (number, number + 1):
                yield line_number, rules
