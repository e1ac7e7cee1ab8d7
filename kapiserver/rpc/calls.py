"""Runs the calls of a group: bounds them, converts requests and responses, and warns.

`endpoint.py` (gRPC) and `http_calls.py` (HTTP) both run calls through a GroupRunner, so that they
share the bounds and the implementation. Knows no transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kapiserver.apiserver.metrics import RPCLabels, RPCMetrics
from kapiserver.apiserver.time_limit import TimeLimit
from kapiserver.rpc.errors import rpc_error
from kapiserver.rpc.registration import Call, Group, Method, RPCError, Version

if TYPE_CHECKING:
    from google.protobuf.message import Message

_log = logging.getLogger(__name__)

_LOGGED_WARNINGS: set[str] = set()
"""The deprecations that this process has logged; bounded by the registered names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the calls of one group.

    calls          the maximum number of calls that run at a time
    message_bytes  the maximum size of a request, of a response, and of each message of a stream
    seconds        the seconds after which a unary call ends, unless its client sets a shorter
                   deadline
    """

    calls: int = 100
    message_bytes: int = 4 << 20
    seconds: float = 60.0


class GroupRunner:
    """Runs the calls of one group, whatever their version and transport."""

    def __init__(self, group: Group, limits: Limits, metrics: RPCMetrics | None = None) -> None:
        self.group = group
        self.limits = limits
        self._metrics = metrics or RPCMetrics()
        self._implementation = group.server_class()
        self._running = 0
        self._time_limit = TimeLimit()

    async def run(self, version: Version, method: Method, request: Any, call: Call) -> Message:
        """Return the response to a call that has one. The transport ends it at the client's
        deadline, the server after its limit.

        request  a message of the version, or an async iterator of messages if the call streams its
                 requests

        Raises RPCError.
        """
        observed = self._begin(version, method)
        in_response = False
        try:
            function = self._function(method)
            with self._time_limit.within(self.limits.seconds):
                response = await self._call(function, _to_internal(method, request), call)
            in_response = True
            message: Message = method.from_internal(response)
            self._check_size(message)
        except Exception as error:
            raise self._failure(observed, error, in_response=in_response) from None
        except asyncio.CancelledError:
            observed.end("CANCELLED")
            raise
        observed.end("OK")
        return message

    async def stream(
        self, version: Version, method: Method, request: Any, call: Call
    ) -> AsyncIterator[Message]:
        """Yield the responses to a call that streams them; the transport ends it at the client's
        deadline. Raises RPCError."""
        observed = self._begin(version, method)
        in_response = False
        try:
            function = self._function(method)
            responses = function(_to_internal(method, request), call)
            if inspect.isgenerator(responses):
                responses = self._iterate(responses)
            async for response in responses:
                in_response = True
                message: Message = method.from_internal(response)
                self._check_size(message)
                in_response = False
                yield message
        except Exception as error:
            raise self._failure(observed, error, in_response=in_response) from None
        except (asyncio.CancelledError, GeneratorExit):
            observed.end("CANCELLED")
            raise
        observed.end("OK")

    def _begin(self, version: Version, method: Method) -> _Observed:
        kind = ("unary", "server_stream", "client_stream", "bidi_stream")[
            method.server_streaming + 2 * method.client_streaming
        ]
        labels = RPCLabels(kind, version.full_service, method.name, "")
        self._metrics.started.add(labels)
        observed = _Observed(self._metrics, labels, self._release)
        if self._running >= self.limits.calls:
            self._running += 1
            raise self._failure(
                observed,
                RPCError(
                    "RESOURCE_EXHAUSTED",
                    f"the group {self.group.name} runs {self.limits.calls} calls, its limit; "
                    "try again later",
                ),
            )
        self._running += 1
        return observed

    def _release(self) -> None:
        self._running -= 1

    def _check_size(self, response: Message) -> None:
        size = response.ByteSize()
        if size > self.limits.message_bytes:
            raise RPCError(
                "RESOURCE_EXHAUSTED",
                f"the response has {size} bytes, at most {self.limits.message_bytes} are sent",
            )

    def _failure(
        self, observed: _Observed, error: Exception, *, in_response: bool = False
    ) -> RPCError:
        labels = observed.labels
        answer = rpc_error(error, f"{labels.service}/{labels.method}", in_response=in_response)
        observed.end(answer.code_name)
        return answer

    def _function(self, method: Method) -> Callable[[Any, Call], Any]:
        function: Callable[[Any, Call], Any] | None = getattr(
            self._implementation, method.server_method, None
        )
        if function is None:
            raise NotImplementedError
        return function

    async def _call(self, function: Callable[[Any, Call], Any], request: Any, call: Call) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(request, call)
        return await self._in_thread(function, request, call)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread. The call counts until the function returns, even if the
        client has left."""
        future: Future[Any] = Future()
        # A daemon, so that a function that never returns does not keep the process from ending.
        # The limit of calls bounds the threads.
        threading.Thread(
            target=_run, args=(future, function, *arguments), name="rpc", daemon=True
        ).start()
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.done():
                self._running += 1
                loop = asyncio.get_running_loop()
                future.add_done_callback(lambda _: _call_on_loop(loop, self._release))
            raise
        finally:
            del future  # its error refers to this frame: that would be a cycle

    async def _iterate(self, responses: Iterator[Any]) -> AsyncIterator[Any]:
        end = object()
        while (response := await self._in_thread(next, responses, end)) is not end:
            yield response


def _run(future: Future[Any], function: Callable[..., Any], *arguments: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function(*arguments))
    except BaseException as error:
        future.set_exception(error)
        del future  # the error refers to this frame: that would be a cycle


def _call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)


class _Observed:
    """Counts one call when it ends, once."""

    __slots__ = ("_metrics", "_release", "_started", "labels")

    def __init__(self, metrics: RPCMetrics, labels: RPCLabels, release: Callable[[], None]) -> None:
        self._metrics = metrics
        self._release = release
        self._started = time.perf_counter()
        self.labels = labels

    def end(self, code_name: str) -> None:
        """Count the call under its code."""
        self._release()
        seconds = time.perf_counter() - self._started
        self._metrics.handled.observe(self.labels._replace(code=code_name), seconds)


def _to_internal(method: Method, request: Any) -> Any:
    if not method.client_streaming:
        return method.to_internal(request)
    return _converted(method, request)


async def _converted(method: Method, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield method.to_internal(request)


def deprecation_warnings(version: Version, method: Method, request: Message | None) -> list[str]:
    """Return a warning for a deprecated version, a deprecated call and each deprecated field that
    the request has set. Logs each of them once."""
    if not (version.deprecated or method.deprecated or method.deprecated_fields):
        return []
    warnings = []
    if version.deprecated:
        warnings.append(f"{version.full_service} is deprecated")
    if method.deprecated:
        warnings.append(f"{version.full_service}/{method.name} is deprecated")
    if method.deprecated_fields and request is not None:
        names = sorted(set(_set_fields(request)) & method.deprecated_fields)
        warnings += [f"{name} is deprecated" for name in names]
    for warning in warnings:
        if warning not in _LOGGED_WARNINGS:
            _LOGGED_WARNINGS.add(warning)
            _log.warning("a client calls %s/%s: %s", version.full_service, method.name, warning)
    return warnings


def _set_fields(message: Message) -> Iterator[str]:
    """Yield the full names of the fields that are set in a message and in messages within it."""
    for field, value in message.ListFields():
        yield field.full_name
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for item in value.values():
                    yield from _set_fields(item)
        elif field.is_repeated:
            for item in value:
                yield from _set_fields(item)
        else:
            yield from _set_fields(value)
