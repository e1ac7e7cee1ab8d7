"""The generated tables of the pages: which there are, and how a page is refreshed.

A page has a table between the lines `<!-- table: NAME -->` and `<!-- end of table -->`. TABLES has
the function that makes it. `python -m docs.generator` writes all of them, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.generator import conformance, fidelity, harness, performance, reference
from docs.generator.decisions import decision_index

DOCS = Path(__file__).parent.parent
TABLES: dict[str, Callable[[], str]] = {
    "admission plugins": reference.admission_plugins,
    "commands": reference.commands,
    "control operations": harness.control_operations,
    "configuration files": reference.configuration_files,
    "comparisons with kube-apiservers": performance.comparisons,
    "conformance of workloads": conformance.workload_conformance,
    "conformance tests": fidelity.conformance,
    "costs beside kube-apiserver": performance.costs,
    "counts of conformance": conformance.counts,
    "controllers": reference.controllers,
    "checks of the doctor": reference.doctor_checks,
    "decisions": decision_index,
    "classes of the harness": harness.classes,
    "fixtures": harness.fixtures,
    "settings of test servers": harness.settings,
    "differences": fidelity.differences,
    "kubectl": fidelity.programs,
    "memory beside kube-apiserver": performance.memory,
    "feature gates": reference.feature_gates,
    "metrics": reference.metrics,
}
_BEGIN = "<!-- table: {} -->"
_END = "<!-- end of table -->"
_TABLE = re.compile(
    rf"^{_BEGIN.format('(?P<name>[a-z -]+)')}\n(?P<text>.*?)^{re.escape(_END)}$", re.M | re.S
)


def pages_with_tables() -> Iterator[Path]:
    """Yield the pages that have generated tables."""
    return (page for page in sorted(DOCS.rglob("*.md")) if table_names(_read(page)))


def table_names(markdown: str) -> list[str]:
    """Return the names of the tables that a page has."""
    return [match["name"] for match in _TABLE.finditer(markdown)]


def stale_tables(markdown: str) -> list[str]:
    """Return the names of the tables on a page that differ from what their functions make."""
    tables = _TABLE.finditer(markdown)
    return [match["name"] for match in tables if match[0] != _fresh_table(match)]


def refresh(page: Path) -> None:
    """Write a page anew with its tables. Raises KeyError for an unknown table."""
    page.write_text(_TABLE.sub(_fresh_table, _read(page)), encoding="utf-8")


def _fresh_table(match: re.Match[str]) -> str:
    name = match["name"]
    return f"{_BEGIN.format(name)}\n\n{TABLES[name]()}\n\n{_END}"


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")
