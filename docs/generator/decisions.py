"""The list of decision records, from their files. Knows no page."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "decisions"


def decision_list() -> str:
    """Return a list of links to the decision records, in the order of their numbers."""
    records = sorted(path for path in FOLDER.glob("[0-9]*.md"))
    return "\n".join(f"- [{_title(record)}]({record.name})" for record in records)


def _title(record: Path) -> str:
    heading = record.read_text(encoding="utf-8").partition("\n")[0]
    return heading.removeprefix("#").strip()
