"""The tables of the page on fidelity, derived from the tests: what is compared with kube-apiserver,
with which programs, and what differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generator.markdown import code, prose, table
from tests.docs.differences import DIFFERENCES
from tests.e2e.binaries import PACKAGES

_E2E = Path(__file__).parent.parent.parent / "tests" / "e2e"
CONFORMANCE_MODULES = ("test_conformance*.py", "test_every_kind.py", "test_pods.py")
"""Modules whose tests redo conformance tests of Kubernetes, which their docstrings name."""


def conformance() -> str:
    """Return the table of redone conformance tests."""
    modules = [file for pattern in CONFORMANCE_MODULES for file in sorted(_E2E.glob(pattern))]
    rows = [row for module in modules for row in _rows(module)]
    return table(("conformance tests of Kubernetes", "test"), rows)


def _rows(module: Path) -> Iterator[tuple[str, str]]:
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = " ".join((ast.get_docstring(node) or "").split())
            yield prose(text), code(f"{module.name}::{node.name}")


def differences() -> str:
    """Return the table of known differences, each of which a test sees."""
    rows = [(each.kubernetes, each.kapiserver) for each in DIFFERENCES]
    return table(("a cluster", "kapiserver"), rows)


def programs() -> str:
    """Return the versions of kubectl that the end-to-end tests run."""
    versions = sorted(int(re.findall(r"-v(\d+)", name)[0]) for name in PACKAGES.values())
    return ", ".join(f"1.{minor}" for minor in versions)
