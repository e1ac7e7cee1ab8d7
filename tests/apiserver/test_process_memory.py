"""The garbage collector of a serving process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, gc, weakref
from kapiserver.apiserver.serving import process_memory

class Thing:
    pass

async def main():
    process_memory.manage_memory()
    frozen = gc.get_freeze_count()
    things = [Thing() for _ in range(1000)]
    gc.collect(0)
    assert gc.get_count()[2] == 0
    assert gc.get_freeze_count() > frozen + 1000
    thing = things.pop()
    reference = weakref.ref(thing)
    del thing
    assert reference() is None
    ring = Thing()
    ring.self, reference = ring, weakref.ref(ring)
    gc.collect(0)
    del ring
    gc.collect()
    assert reference() is not None
    frozen = gc.get_freeze_count()
    half = process_memory.Usage(frozen // 2, 1 << 40)
    process_memory.collect_if_grown(half)
    assert reference() is not None
    process_memory.MIN_FROZEN = 1000
    assert process_memory.collect_if_grown(process_memory.Usage(frozen, 1 << 40)).memory < 1 << 40
    assert reference() is not None
    assert process_memory.collect_if_grown(half).frozen < frozen
    assert reference() is None
    ring = Thing()
    ring.self, reference = ring, weakref.ref(ring)
    gc.collect(0)
    del ring
    less = process_memory.Usage(gc.get_freeze_count(), 1 << 20)
    process_memory.collect_if_grown(less)
    assert reference() is not None
    process_memory.MORE_BYTES = 1000
    process_memory.collect_if_grown(less)
    assert reference() is None

asyncio.run(main())
"""


def test_survivors_are_frozen() -> None:
    """Survivors of a collection are not collected again; reference counting still frees them. A
    collection of everything, when they have doubled, frees cycles among them."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


FREED = """
import re
from pathlib import Path
from kapiserver.apiserver.serving import process_memory

def resident() -> int:
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

pieces = [bytes(8192) for _ in range(10_000)]
del pieces[::2], pieces[::2], pieces[::2]
before = resident()
process_memory.trim()
assert resident() < before - 40_000, (before, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_trim_returns_free_memory() -> None:
    """Memory freed between blocks in use goes back to the system."""
    subprocess.run([sys.executable, "-c", FREED], check=True)


def test_serve_manages_memory() -> None:
    """`kapiserver serve` calls manage_memory: otherwise a full collection blocks the event loop for
    a tenth of a second."""
    from kapiserver import cli

    code = cli._run_server.__code__
    assert "manage_memory" in code.co_names + code.co_varnames


WITHOUT_DESCRIPTORS = """
import resource, sys
from kapiserver.apiserver.serving import process_memory

assert "ctypes" not in sys.modules
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
process_memory.trim()
assert "ctypes" not in sys.modules
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
process_memory.trim()
assert "ctypes" in sys.modules
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")
def test_trim_without_descriptors() -> None:
    """A process that has no file descriptor left to import with trims its memory later."""
    subprocess.run([sys.executable, "-c", WITHOUT_DESCRIPTORS], check=True)
