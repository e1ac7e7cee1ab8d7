"""The stacks of threads and of tasks, read from another thread of the process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct

from kapiserver.apiserver.debugging.pprof_format import Frame, Stack

MAX_FRAMES = 128
"""The innermost frames of a stack that are read, as in Go."""


class RunningStack(Struct, frozen=True):
    """A stack, and what runs it: `thread` with its name, or `task`."""

    owner: str
    stack: Stack


def code_frame(code: CodeType, line: int | None) -> Frame:
    """Return the frame of a line of a function; without a line, that of its first line."""
    first_line = code.co_firstlineno
    return Frame(code.co_qualname, code.co_filename, first_line, line or first_line)


def thread_stack(innermost: FrameType | None) -> Stack:
    """Return the stack whose innermost frame is given."""
    frames: list[Frame] = []
    frame = innermost
    while frame is not None and len(frames) < MAX_FRAMES:
        frames.append(code_frame(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def task_stack(task: asyncio.Task[Any]) -> Stack:
    """Return the stack of the coroutines of a task, each of which awaits the one before it."""
    frames: list[Frame] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(frames) < MAX_FRAMES:
        for kind in ("cr", "gi", "ag"):
            frame: FrameType | None = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                frames.append(code_frame(frame.f_code, frame.f_lineno))
                awaited = getattr(awaited, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await")
                break
        else:
            break
    return tuple(reversed(frames))


def count_stacks(loop: asyncio.AbstractEventLoop) -> Counter[RunningStack]:
    """Return the stacks of all threads, and of the tasks of a loop, with their numbers."""
    count: Counter[RunningStack] = Counter()
    innermost = sys._current_frames()
    for thread in threading.enumerate():
        stack = thread_stack(innermost.pop(thread.ident or 0, None))
        if stack and thread is not threading.current_thread():
            count[RunningStack(f"thread {thread.name}", stack)] += 1
    innermost.clear()  # it has the frame of this function, which has it
    for task in asyncio.all_tasks(loop):
        count[RunningStack("task", task_stack(task))] += 1
    return count


def stacks_text(count: Counter[RunningStack]) -> str:
    """Return the stacks as text, the most frequent first, as `goroutine?debug=1` of Go does."""
    lines = [f"goroutine profile: total {count.total()}"]
    for running, number in count.most_common():
        lines.append(f"{number} @ {running.owner}")
        lines += [f"#\t{frame.function}\t{frame.file}:{frame.line}" for frame in running.stack]
        lines.append("")
    return "\n".join(lines)
