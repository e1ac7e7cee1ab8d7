"""Serves the profiles at /debug/pprof/, of the whole process, as net/http/pprof of Go does.

`go tool pprof` reads `profile`, `heap` and `goroutine`. A profile takes a thread for a bounded
time, and a process takes one profile at a time. Nothing here is imported before the first request,
and nothing runs between requests.
"""

from __future__ import annotations

import asyncio
import functools
import html
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from kapiserver.apiserver.debugging.cpu_profile import is_available, profile_cpu
from kapiserver.apiserver.debugging.heap_profile import profile_heap
from kapiserver.apiserver.debugging.loop_lag import loop_lag_text, measure_loop_lag
from kapiserver.apiserver.debugging.pprof_format import Profile, Sample, encode_profile
from kapiserver.apiserver.debugging.stacks import count_stacks, stacks_text
from kapiserver.apiserver.redaction import without_passwords
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, text_error, text_response

MAX_SECONDS = 300
"""The longest time of a profile."""

_TakeProfile: TypeAlias = Callable[[float, threading.Event], Profile]
"""Takes a profile in a thread, for some seconds or until the event is set."""

_busy = threading.Lock()
"""Held while a profile is taken. A lock of the process, as profiles are of the process."""


class _Page(Struct, frozen=True, kw_only=True):
    """A page of the index. `text` says what it has."""

    serve: Callable[[Request], Awaitable[Response]]
    text: str


async def serve_profile(request: Request, name: str) -> AnyResponse:
    """Return the index, or the page that the rest of the path names: 400 for a time that is not
    allowed, 409 while another profile is taken, 404 for an unknown name."""
    if not name:
        return Response(status=302, media_type="", headers=[("Location", "/debug/pprof/")])
    page = _PAGES.get(name.removeprefix("/"))
    if name == "/":
        return _index()
    return await page.serve(request) if page is not None else text_error("Unknown profile", 404)


def _index() -> Response:
    rows = "".join(
        f'<li><a href="{name}">{name}</a>: {html.escape(page.text)}</li>\n'
        for name, page in _PAGES.items()
    )
    body = (
        f"<html>\n<head><title>/debug/pprof/</title></head>\n<body>\n<ul>\n{rows}</ul>\n</body>\n"
    )
    return Response(
        media_type="text/html; charset=utf-8",
        body=f"{body}</html>\n".encode(),
        headers=[("X-Content-Type-Options", "nosniff")],
    )


def _seconds(request: Request, default: int) -> int | None:
    """Return the parameter `seconds`, None if it is not allowed."""
    text = request.parameter("seconds") or str(default)
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number and 0 < int(text) <= MAX_SECONDS else None


async def _serve_timed(name: str, take: _TakeProfile, default: int, request: Request) -> Response:
    seconds = _seconds(request, default)
    if seconds is None:
        return _bad_seconds()
    if not _busy.acquire(blocking=False):
        return _already_in_use()
    stop = threading.Event()
    request.on_gone(stop.set)
    try:
        body = await asyncio.to_thread(_take_and_release, take, seconds, stop)
    finally:
        stop.set()
    return _binary(name, body)


def _take_and_release(take: _TakeProfile, seconds: float, stop: threading.Event) -> bytes:
    try:
        return encode_profile(take(seconds, stop))
    finally:
        _busy.release()


async def _serve_cpu(request: Request) -> Response:
    if not is_available():
        return text_error("Could not enable CPU profiling: it needs Linux", 501)
    return await _serve_timed("profile", profile_cpu, 30, request)


async def _serve_loop_lag(request: Request) -> Response:
    seconds = _seconds(request, 5)
    if seconds is None:
        return _bad_seconds()
    if not _busy.acquire(blocking=False):
        return _already_in_use()
    request.cancel_when_gone()
    try:
        return text_response(loop_lag_text(await measure_loop_lag(seconds)))
    finally:
        _busy.release()


async def _serve_stacks(request: Request) -> Response:
    # In a thread: ten thousand watches have as many tasks.
    count = await asyncio.to_thread(count_stacks, asyncio.get_running_loop())
    if request.parameter("debug") not in ("", "0"):
        return text_response(await asyncio.to_thread(stacks_text, count))
    samples = [
        Sample(stack=running.stack, values=(number,), labels=(("owner", running.owner),))
        for running, number in count.items()
    ]
    profile = Profile(
        value_types=(("goroutine", "count"),),
        samples=samples,
        period_type=("goroutine", "count"),
        period=1,
    )
    return _binary("goroutine", await asyncio.to_thread(encode_profile, profile))


async def _serve_command_line(_request: Request) -> Response:
    return text_response(without_passwords("\0".join(sys.orig_argv)))


def _binary(name: str, body: bytes) -> Response:
    headers = [
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Disposition", f'attachment; filename="{name}"'),
    ]
    return Response(media_type="application/octet-stream", body=body, headers=headers)


def _bad_seconds() -> Response:
    return text_error(f'invalid value for "seconds" - must be from 1 to {MAX_SECONDS}', 400)


def _already_in_use() -> Response:
    return text_error("Could not enable profiling: profiling already in use", 409)


_PAGES: dict[str, _Page] = {
    "cmdline": _Page(
        serve=_serve_command_line,
        text="The command line of the process; NUL bytes separate the arguments.",
    ),
    "goroutine": _Page(
        serve=_serve_stacks,
        text="The stacks of all threads, and of all tasks of the event loop; ?debug=1 for text.",
    ),
    "heap": _Page(
        serve=functools.partial(_serve_timed, "heap", profile_heap, 5),
        text="What is allocated in ?seconds=5 and still in use at their end.",
    ),
    "looplag": _Page(
        serve=_serve_loop_lag,
        text="How late the event loop calls what is due, a histogram over ?seconds=5.",
    ),
    "profile": _Page(serve=_serve_cpu, text="The CPU that functions take in ?seconds=30."),
}
