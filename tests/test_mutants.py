"""Every check of the authorizers is needed: without it, a test fails."""

import subprocess
import sys

import pytest

from tests.mutants import MODULES


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_no_survivors(module: str) -> None:
    """No mutant of the module survives, but those that are equivalent."""
    command = [sys.executable, "-m", "tests.mutants", module]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert completed.stdout.splitlines()[-1].endswith(" mutants, 0 survivors"), completed.stdout
