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

now = [0.0]

async def main():
    process_memory.COLLECTOR = process_memory.Collector(lambda: now[0])
    process_memory.COLLECTOR.on_limit_exceeded()  # not enabled
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
    references = []
    def leave_ring():
        ring = Thing()
        ring.self = ring
        references.append(weakref.ref(ring))
        gc.collect(0)
    def is_collected():
        return references[-1]() is None

    leave_ring()
    gc.collect()
    assert not is_collected()

    collector = process_memory.COLLECTOR
    grown = process_memory.Usage(-process_memory.MORE_BYTES)
    for checks in (1, 2, 3, 3):
        grown = collector.collect_if_grown(grown)
        assert grown.grown_checks == checks
    assert not is_collected()
    process_memory.MIN_GARBAGE = 1000
    for _ in range(1000):
        ring = Thing()
        ring.self = ring
    del ring
    gc.collect(0)
    same = collector.collect_if_grown(collector.usage())
    assert (same.grown_checks, same.garbage >= 1000) == (0, True)
    assert not is_collected()
    last = collector.collect_if_grown(grown)
    assert (last.grown_checks, last.garbage) == (0, 0)
    assert is_collected()
    assert gc.get_freeze_count() > 1000

    leave_ring()
    now[0] += process_memory.EXCEEDED_SECONDS - 1
    collector.on_limit_exceeded()
    assert not is_collected()
    now[0] += 1
    collector.on_limit_exceeded()
    assert is_collected()

asyncio.run(main())
"""


def test_survivors_are_frozen() -> None:
    """Survivors of a collection are not collected again; reference counting still frees them.
    Cycles among them are freed when short collections found cycles and memory has grown, and when
    the process exceeds its limit of memory."""
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


HEAPS = """
import ctypes, sys, threading
from kapiserver.apiserver.serving import process_memory

process_memory.use_one_heap()
together = threading.Barrier(4)

def allocate():
    together.wait()
    return bytes(8192)

threads = [threading.Thread(target=allocate) for _ in range(together.parties)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_info(0, ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout"))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_threads_share_one_heap() -> None:
    """Threads get no heaps of their own, each with its own free memory between blocks."""
    command = [sys.executable, "-c", HEAPS]
    information = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert information.count("<heap nr=") == 1


TRIMMED = """
import gc
from kapiserver.apiserver.serving import process_memory

process_memory.trim()
gc.collect()
gc.disable()
for _ in range(3):
    process_memory.trim()
assert gc.collect() == 0
"""


def test_trims_leave_no_garbage() -> None:
    """Returning memory every 15 s leaves no reference cycle, which a serving process would keep."""
    subprocess.run([sys.executable, "-c", TRIMMED], check=True)


def test_serve_manages_memory() -> None:
    """`kapiserver serve` calls manage_memory: otherwise a full collection blocks the event loop for
    a tenth of a second. It calls use_one_heap before it starts a thread."""
    from kapiserver import cli

    code = cli._run_server.__code__
    assert "manage_memory" in code.co_names + code.co_varnames
    code = cli.run_server.__code__
    assert "use_one_heap" in code.co_names + code.co_varnames


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
