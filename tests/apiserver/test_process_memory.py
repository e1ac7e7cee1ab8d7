"""The garbage collector of a serving process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, gc, weakref
from kapiserver.apiserver import cli, garbage

class Thing:
    pass

async def main():
    garbage.tend()
    kept = [Thing() for _ in range(1000)]
    gc.collect()
    assert gc.get_count()[2] == 0
    aside = gc.get_freeze_count()
    assert aside > 1000
    one = kept.pop()
    seen = weakref.ref(one)
    del one
    assert seen() is None
    ring = Thing()
    ring.self, seen = ring, weakref.ref(ring)
    gc.collect()
    del ring
    gc.collect()
    assert seen() is not None
    garbage._walk_everything()
    assert seen() is None

asyncio.run(main())
"""


def test_what_survives_is_set_aside() -> None:
    """What survived a full collection is not walked again, still goes with its last reference,
    and a cycle among it goes with the hourly walk of everything."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


FREED = """
import re
from pathlib import Path
from kapiserver.apiserver import garbage

def resident() -> int:
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

pieces = [bytes(8192) for _ in range(10_000)]
del pieces[::2], pieces[::2], pieces[::2]
before = resident()
garbage.trim()
assert resident() < before - 40_000, (before, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_free_memory_is_given_back() -> None:
    """What was freed between pieces that are in use takes no memory any more."""
    subprocess.run([sys.executable, "-c", FREED], check=True)


def test_the_command_tends() -> None:
    """`serve` does so: without, a full collection holds the loop for a tenth of a second."""
    from kapiserver import cli

    assert "tend" in cli._until_told.__code__.co_names + cli._until_told.__code__.co_varnames
