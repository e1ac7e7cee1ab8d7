"""The index of decision records, from the three paragraphs with which each begins. Knows no page.

The third has the outcome in one sentence:

    # 041: RBAC decides by an index of subjects

    Status: accepted. Subject: Authorization.

    Decision: Informers of roles and bindings feed an index.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from docs.generator.markdown import table

FOLDER = Path(__file__).parent.parent / "decisions"
SUBJECTS = (
    "Structure",
    "Kinds and versions",
    "Codecs",
    "Expressions",
    "Storage",
    "etcd",
    "Watches and lists",
    "Event loop and memory",
    "HTTP and TLS",
    "Authentication",
    "Authorization",
    "Admission",
    "Observability",
    "Performance",
    "RPC groups",
    "Simulation",
    "The test harness",
    "Tests of the server",
    "Documents",
)
"""The sections of the index, in their order."""
_TITLE = re.compile(r"# (?P<number>\d{3}): (?P<title>[^\n]+)")
_LINK = r"\[\d{3}\]\(\d{3}-[\w-]+\.md\)"
_STATUS = re.compile(
    rf"Status: (?P<status>accepted|(?:accepted, amended|superseded) by {_LINK}(?: and {_LINK})*)\."
    r" Subject: (?P<subject>[\w ]+)\."
)
_DECISION = re.compile(r"Decision: (?P<decision>\S.*\.)")


class MalformedRecord(ValueError):
    """A record does not begin as the index needs it. The message has its path and what to write."""

    def __init__(self, record: Path, detail: str) -> None:
        super().__init__(f"docs/decisions/{record.name}: {detail}")


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the head of a record says. `decision` is on one line."""

    path: Path
    number: str
    title: str
    status: str
    subject: str
    decision: str


def record_files() -> list[Path]:
    """Return the files of all records, in the order of their numbers."""
    return sorted(FOLDER.glob("[0-9]*.md"))


def read_record(path: Path) -> DecisionRecord:
    """Return what the head of a record says. Raises MalformedRecord."""
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    title, status, decision = (each.strip("\n") for each in [*paragraphs, "", ""][:3])
    title_match = _TITLE.fullmatch(title)
    if title_match is None or not path.name.startswith(title_match["number"]):
        raise MalformedRecord(path, f"the first line is not `# {path.name[:3]}: Title`")
    status_match = _STATUS.fullmatch(" ".join(status.split()))
    if status_match is None:
        raise MalformedRecord(
            path,
            "the second paragraph is not `Status: STATUS. Subject: SUBJECT.`, where STATUS is "
            "`accepted`, `accepted, amended by [NNN](NNN-name.md)` or `superseded by ...`",
        )
    if status_match["subject"] not in SUBJECTS:
        raise MalformedRecord(path, f"the subject is none of {', '.join(SUBJECTS)}")
    decision_match = _DECISION.fullmatch(" ".join(decision.split()))
    if decision_match is None:
        raise MalformedRecord(path, "the third paragraph is not `Decision: ` and a sentence")
    return DecisionRecord(
        path=path,
        number=title_match["number"],
        title=title_match["title"],
        status=status_match["status"],
        subject=status_match["subject"],
        decision=decision_match["decision"],
    )


def decision_index() -> str:
    """Return a section for each subject, with a table of its records. Raises MalformedRecord."""
    records = [read_record(path) for path in record_files()]
    return "\n\n".join(
        _section(subject, [each for each in records if each.subject == subject])
        for subject in SUBJECTS
    )


def _section(subject: str, records: list[DecisionRecord]) -> str:
    rows = [
        (f"[{each.number} {each.title}]({each.path.name})", each.decision, each.status)
        for each in records
    ]
    return f"## {subject}\n\n{table(('record', 'decision', 'status'), rows)}"
