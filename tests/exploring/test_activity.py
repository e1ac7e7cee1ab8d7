"""Whether the threads of a program wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kapiserver.exploring.running.operators.activity import Sample, sample

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not say what threads do"
)

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print("started", flush=True)
child.wait()
"""
WAITS = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"
WORKS = "print('ready', flush=True)\nwhile True: pass"


@pytest.mark.parametrize(("program", "is_at_rest"), [(WAITS, True), (WORKS, False)])
def test_a_program_and_its_children(program: str, is_at_rest: bool) -> None:
    """A child that works counts, although its parent waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        samples = _samples(process.pid)
        if is_at_rest:
            while not samples[0].is_same_rest(samples[1]):
                samples = _samples(process.pid)  # it has just written, and goes to sleep
        else:
            assert not any(each.is_asleep for each in samples)
    finally:
        for pid in _descendants(process.pid):
            subprocess.run(["kill", "-KILL", str(pid)], check=True)
        process.wait()
        process.communicate()


def _samples(pid: int) -> list[Sample]:
    samples = [sample(pid), sample(pid)]
    return [each for each in samples if each is not None]


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [*map(int, children), pid]


def test_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert sample(process.pid) is None
