"""Markdown from Python values: tables and docstrings. Knows no registry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a `|` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def code(text: str) -> str:
    """Return text as inline code."""
    return f"`{text}`"


def prose(text: str) -> str:
    """Return text with the characters escaped that Markdown or HTML would interpret; inline code
    stays."""
    parts = text.split("`")
    plain_parts = (re.sub(r"([<*_\[\]])", r"\\\1", part) for part in parts[::2])
    parts[::2] = plain_parts
    return "`".join(parts)


def first_paragraph(documented: object) -> str:
    """Return the first paragraph of a docstring on one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split())


def capitalized(text: str) -> str:
    """Return a sentence with a capital first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]
