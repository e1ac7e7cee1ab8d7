"""Tasks that run beside the code that started them. Knows nothing of their work."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class BackgroundTasks(set[asyncio.Task[Result]]):
    """The tasks in progress. The event loop refers to a task only weakly, so that a task without
    another reference could be freed before it ends."""

    def start(
        self,
        work: Coroutine[Any, Any, Result],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Result]:
        """Run a coroutine as a task, and keep the task until it ends. Returns the task."""
        task = asyncio.get_running_loop().create_task(work, name=name, context=context)
        self.add(task)
        task.add_done_callback(self.discard)
        return task
