"""Each conformance test of these groups is redone, or the table says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generator.conformance import all_specs, redone

ROOT = Path(__file__).parent.parent.parent


def test_table():
    specs = {name: reason for group in all_specs().values() for name, reason in group.items()}
    tests = redone()
    assert set(tests) <= set(specs)
    assert {name for name, reason in specs.items() if reason is None} == set(tests)


def test_count():
    """These are all that Kubernetes 1.37 has."""
    counts = {group: len(names) for group, names in all_specs().items()}
    assert counts == {"sig-apps": 60, "sig-node": 104, "sig-scheduling": 11}


def test_programs():
    """Each test that the page names exists."""
    page = (ROOT / "docs/conformance.md").read_text().partition("## Programs")[2]
    names = re.findall(r"`(tests/[^`]*)`", page)
    assert len(names) > 20
    for name in names:
        path, _, test = name.partition("::")
        text = (ROOT / path).read_text()
        assert not test or f"def {test}(" in text, name
