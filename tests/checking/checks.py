"""Runs checks of texts and files for tests, and says briefly what they found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kapiserver.checking.check import check_reads
from kapiserver.checking.finding import Finding
from kapiserver.checking.options import CheckOptions
from kapiserver.checking.reading.documents import read_documents
from kapiserver.checking.reading.files import SourceFile
from kapiserver.checking.reading.inputs import read_inputs


def check_text(text: str, **options: Any) -> list[Finding]:
    """The findings of a file `f.yaml` with this text."""
    reads = read_documents(SourceFile("f.yaml", text.encode()))
    return asyncio.run(check_reads(reads, CheckOptions(**options)))


def check_paths(*paths: str | Path, **options: Any) -> list[Finding]:
    """The findings of files and folders."""
    inputs = read_inputs([str(path) for path in paths])
    return asyncio.run(check_reads(inputs.reads, CheckOptions(**options)))


def places(findings: list[Finding]) -> list[tuple[int, int, str]]:
    """The line, the column and the rule of each finding."""
    return [(finding.line, finding.column, finding.rule) for finding in findings]


def rules(findings: list[Finding]) -> list[str]:
    """The rule of each finding."""
    return [finding.rule for finding in findings]
