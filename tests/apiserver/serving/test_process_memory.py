"""The garbage collector of a serving process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, gc, weakref
from kapiserver.apiserver.serving.process import memory as process_memory

class Thing:
    pass

now, memory = [0.0], [0]
walked = []

async def main():
    collector = process_memory.COLLECTOR = process_memory.Collector(
        lambda: now[0], lambda: memory[0]
    )
    collector.collect_if_exceeded()  # not enabled
    assert collector.memory() == 0
    process_memory.manage_memory()
    frozen = gc.get_freeze_count()
    things = [Thing() for _ in range(1000)]
    gc.collect(0)
    assert gc.get_freeze_count() < frozen + 1000
    gc.collect(1)
    assert gc.get_count()[2] == 0
    assert gc.get_freeze_count() > frozen + 1000
    thing = things.pop()
    reference = weakref.ref(thing)
    del thing
    assert reference() is None
    rings = []
    def make_ring():
        ring = Thing()
        ring.self = ring
        rings.append(weakref.ref(ring))
        return ring
    def is_collected():
        return rings[-1]() is None

    ring = make_ring()
    gc.collect(0)
    del ring
    gc.collect(1)
    assert is_collected()

    ring = make_ring()
    gc.collect(1)
    del ring
    gc.collect()
    assert not is_collected()
    collector.collect_if_exceeded()
    assert is_collected()

    ring = make_ring()
    gc.collect(1)
    del ring
    now[0] += process_memory.EXCEEDED_SECONDS - 1
    collector.collect_if_exceeded()
    assert not is_collected()
    now[0] += 1
    collector.collect_if_exceeded()
    assert is_collected()
    assert gc.get_freeze_count() > 1000

    make_ring()
    memory[0] += process_memory.MORE_BYTES - 1
    collector.memory()
    assert not is_collected()
    memory[0] += 1
    collector.memory()
    assert is_collected()
    make_ring()
    memory[0] -= process_memory.MORE_BYTES
    collector.memory()
    assert not is_collected()
    memory[0] += process_memory.MORE_BYTES
    collector.memory()
    assert is_collected()

asyncio.run(main())
"""


def test_survivors_are_frozen() -> None:
    """What survives two collections is not collected again; reference counting still frees it.
    Cycles of new objects are collected when there are many, or when the process takes more memory;
    cycles of frozen ones when the process exceeds its limit of memory."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


CYCLES = """
import asyncio, gc, threading, time
from kapiserver.apiserver.serving.process import memory as process_memory

class Thing:
    pass

seconds, started = [], []

def measure(phase, info):
    if threading.current_thread() is threading.main_thread():
        if phase == "start":
            started.append(len(gc.get_objects(0)) + len(gc.get_objects(1)) + len(gc.get_objects(2)))

async def main():
    things = [[Thing()] for _ in range(300_000)]  # what caches hold
    process_memory.manage_memory()
    gc.callbacks.insert(0, measure)
    for _ in range(300_000):
        ring = Thing()
        ring.self = ring
    process_memory.free_in_thread()
    await asyncio.sleep(0)
    assert len(started) > 20
    assert max(started) < 3 * process_memory.MAX_NEW_OBJECTS, max(started)

asyncio.run(main())
"""


def test_no_large_collection_on_the_loop() -> None:
    """However many objects in cycles pile up, a collection on the thread of the event loop walks a
    bounded number of objects, even when the process exceeds its limit of memory."""
    subprocess.run([sys.executable, "-c", CYCLES], check=True)


FREED = """
import re
from pathlib import Path
from kapiserver.apiserver.serving.process import memory as process_memory

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
from kapiserver.apiserver.serving.process import memory as process_memory

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
from kapiserver.apiserver.serving.process import memory as process_memory

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

    for run in (cli._run_server, cli._run_worker):
        assert "manage_memory" in run.__code__.co_names + run.__code__.co_varnames
    code = cli.run_server.__code__
    assert "use_one_heap" in code.co_names + code.co_varnames


WITHOUT_DESCRIPTORS = """
import resource, sys
from kapiserver.apiserver.serving.process import memory as process_memory

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
