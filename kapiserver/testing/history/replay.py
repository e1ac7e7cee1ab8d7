"""Serves a recording of a test server again, read-only, at any of its revisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.output import STANDARD_OUTPUT
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.serving.process import logs
from kapiserver.apiserver.serving.process.event_loop import loop_factory
from kapiserver.apiserver.serving.process.signals import ServerSignals
from kapiserver.app import RunningServer, serve
from kapiserver.parts import Parts
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.kv.contract import KV, KVEvent, Revision
from kapiserver.storage.kv.writes import Write
from kapiserver.testing.history.recorder import Recording, read
from kapiserver.testing.history.recording_path import RECORDING_PATH, recording_handler
from kapiserver.testing.state.memory_store import MemoryStore, open_memory_store

READ_ONLY = "a recording is served read-only"
_READING = ("get", "list", "watch")
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


class StandingClock(Clock):
    """The time of a recording, in which no timer falls due."""

    def __init__(self, time: float) -> None:
        self._time = time

    def now(self) -> float:
        """Return the time."""
        return self._time

    def call_later(self, seconds: float, callback: object) -> Timer:  # noqa: ARG002 - never called
        """Return a timer that never calls."""
        return _NoTimer()


class _NoTimer(Timer):
    def cancel(self) -> None:
        """Do nothing."""


async def open_recording(recording: Recording, clock: Clock, *, at: int | None = None) -> KV:
    """Return a store with the objects, history and revisions of a recording, up to the revision
    `at`. Raises ValueError for a revision that the recording does not have."""
    if at is not None and not 1 <= at <= recording.revision:
        raise ValueError(f"the recording has the revisions up to {recording.revision}, not {at}")
    store = await open_memory_store(clock)
    current: dict[str, int] = {}
    for item in sorted(recording.base, key=lambda item: item.revision):
        _write(store, current, item.key, item.value, item.revision)
    for write in recording.writes:
        event = write.event
        if at is None or event.revision <= at:
            _write(store, current, event.key, event.value, event.revision)
    return store


def _write(
    store: MemoryStore, current: dict[str, int], key: str, value: bytes | None, revision: int
) -> None:
    store.write_at(Write(key, value, current.get(key, 0)), Revision(revision))
    if value is None:
        current.pop(key, None)
    else:
        current[key] = revision


def read_only(server: Server, next_handler: Handler) -> Handler:  # noqa: ARG001 - a Filter
    """Refuse requests that write; reviews of access, which store nothing, are answered."""

    async def handle(request: Request) -> AnyResponse:
        info = request.info
        is_review = info.version.group in _REVIEWS
        if info.is_resource_request and info.verb not in _READING and not is_review:
            raise MethodNotAllowed(READ_ONLY)
        return await next_handler(request)

    return handle


@asynccontextmanager
async def serve_recording(
    recording: Recording, *, at: int | None = None, config: Config | None = None
) -> AsyncIterator[RunningServer]:
    """Serve a recording until the block ends. Time stands still at its end, or at the revision
    `at`. Only the endpoints of the service kubernetes are new.

    Raises ValueError for an unknown revision, and the errors of `serve`.
    """
    clock = StandingClock(_time_at(recording, at))
    store = await open_recording(recording, clock, at=at)
    config = config or Config.of(etcd_prefix=recording.root, authorization_mode=("AlwaysAllow",))
    parts = Parts(
        clock=clock,
        kv=store,
        filters=(*FILTERS, read_only),
        controllers=(),
        paths={RECORDING_PATH: recording_handler(recording)},
        page_features=("recording",),
    )
    async with serve(config, parts) as running:
        yield running


def _time_at(recording: Recording, at: int | None) -> float:
    if at is None:
        return recording.time
    times = [write.time for write in recording.writes if write.event.revision <= at]
    return times[-1] if times else recording.time


def timeline(recording: Recording) -> str:
    """Return the requests and writes of a recording in the order of their times, one line each."""
    lines = [(write.time, _write_line(write.event)) for write in recording.writes]
    for request in recording.requests:
        at = datetime.fromisoformat(request["time"]).timestamp()
        summary = f"{request['user']} {request['verb']} {request['uri']}: {request['status']}"
        lines.append((at, f"request {request['number']}: {summary}"))
    return "".join(
        f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='milliseconds')} {line}\n"
        for at, line in sorted(lines, key=lambda line: line[0])
    )


def _write_line(event: KVEvent) -> str:
    action = "delete" if event.value is None else "write"
    return f"revision {event.revision}: {action} {event.key}"


def run_replay(
    path: Path,
    *,
    at: int | None = None,
    secure_port: int,
    kubeconfig: Path | None = None,
    enable_ui: bool = False,
) -> None:
    """Serve a recording until a signal; print how kubectl reaches it, or where its page is. Raises
    OSError, ValueError."""
    logs.set_up(logs.Verbosity(0))
    recording = read(path)
    config = Config.of(
        etcd_prefix=recording.root,
        authorization_mode=("AlwaysAllow",),
        secure_port=secure_port,
        kubeconfig_out=kubeconfig,
        enable_ui=enable_ui,
        shutdown_timeout=0,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve_until_signal(recording, at, config))


async def _serve_until_signal(recording: Recording, at: int | None, config: Config) -> None:
    signals = ServerSignals()
    async with serve_recording(recording, at=at, config=config) as running:
        signals.serve(reload=running.reload, status=running.status)
        revision = recording.revision if at is None else at
        name = recording.test or "the recording"
        assert running.kubeconfig is not None
        page = f"{running.page_url}\n" if running.page_url else ""
        STANDARD_OUTPUT.write(
            f"{page}export KUBECONFIG={running.kubeconfig.absolute()}\n"
            f"# {name} at revision {revision}, read-only\n"
        )
        await signals.stop.wait()
