"""A thread with an event loop of its own, in which an async context manager is open.

Knows no server.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager
from selectors import BaseSelector
from typing import Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EXIT_SECONDS = 10.0
"""How long an interpreter that exits waits for a loop that nobody has stopped, and the loop for the
end of the interpreter."""


class ThreadLoop(asyncio.SelectorEventLoop):
    """The event loop of a thread. It goes on while the interpreter ends, if nobody stops it."""

    def __init__(self, selector: BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._connections: WeakSet[asyncio.Transport] = WeakSet()

    async def create_connection(
        self, *arguments: Any, **keywords: Any
    ) -> tuple[asyncio.Transport, Any]:
        """Open a connection, which is closed with the loop."""
        transport, protocol = await super().create_connection(*arguments, **keywords)
        self._connections.add(transport)
        return transport, protocol

    def close(self) -> None:
        """Close the loop and its connections. Clients of a coroutine that ends leave some: those
        that nobody closes, and those whose TLS close waits for the server."""
        if not self.is_closed() and self._connections:
            for transport in tuple(self._connections):
                transport.abort()
            self.run_until_complete(asyncio.sleep(0))
        super().close()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread. When the interpreter ends, executors take no more work: the
        future is cancelled, so that whoever awaits it ends without an error."""
        try:
            return super().run_in_executor(executor, func, *args)
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            ended: asyncio.Future[T] = self.create_future()
            ended.cancel()
            return ended


class LoopThread:
    """Opens a context manager on the thread's loop, and closes it there.

    loop    the loop of the thread; there is none before `start`
    """

    def __init__(
        self,
        context: AbstractAsyncContextManager[object],
        *,
        name: str,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = ThreadLoop,
    ) -> None:
        self._context = context
        self._loop_factory = loop_factory
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._ended: Future[None] = Future()
        self._stop: asyncio.Event | None = None
        # A daemon: a program that forgets to stop the thread can still exit.
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._resumed = threading.Event()
        """Ends the pause of the loop while the interpreter exits."""
        self.loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Return when the context is open. Raises its errors; then no thread is left."""
        self._thread.start()
        try:
            self.loop = self._started.result()
        except BaseException:
            with contextlib.suppress(Exception):  # the context has raised it at start
                self.stop()
            raise
        atexit.register(self._pause)

    def stop(self) -> None:
        """Close the context and return when the thread has ended. Raises the errors of closing."""
        atexit.unregister(self._pause)
        self._resumed.set()
        if self._stop is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.loop = None
        self._ended.result()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the thread's loop and return its result. Raises its errors, and
        RuntimeError when the thread does not run or calls this itself."""
        if self.loop is None or threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("the thread is not running, or it called this itself: use `await`")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the thread's loop and return its result, without blocking the
        caller's asyncio loop. Raises its errors, and RuntimeError when the thread does not run."""
        if threading.current_thread() is self._thread:
            return await coroutine
        if self.loop is None:
            coroutine.close()
            raise RuntimeError("the thread is not running")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))

    def _pause(self) -> None:
        """Let the loop stand still while the interpreter exits. The interpreter deletes temporary
        files then, and a server on the loop would log that they are missing."""
        paused = threading.Event()

        def pause() -> None:
            paused.set()
            self._resumed.wait(EXIT_SECONDS)

        if self.loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(pause)
                paused.wait(EXIT_SECONDS)

    def _run_loop(self) -> None:
        try:
            # As fast as uvloop for clients of the same process, loaded faster, and on every system.
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._open_until_stopped())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _open_until_stopped(self) -> None:
        self._stop = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        async with self._context:
            self._started.set_result(self.loop)
            await self._stop.wait()
