"""Whether a server is alive and ready: named checks and the texts of /healthz, /livez, /readyz.

Why a check failed goes to the log, never to the client. Mirrors apiserver/pkg/server/healthz of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from kapiserver.apiserver.response import Response, page_not_found, text

_log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
Probe: TypeAlias = Callable[[], Awaitable[None]]
"""Raises what is wrong."""


class NotHealthy(Exception):
    """What a probe found, for the log."""


async def _ping() -> None:
    pass


class Health:
    """The checks of one server and its state.

    alive       probes of /livez and /healthz, by name, beside `ping`
    ready       probes of /readyz alone, by name
    """

    def __init__(
        self, *, alive: Mapping[str, Probe] | None = None, ready: Mapping[str, Probe] | None = None
    ) -> None:
        self.alive: Mapping[str, Probe] = {"ping": _ping, **(alive or {})}
        self.ready: Mapping[str, Probe] = ready or {}
        self.started = False
        """Bootstrap is done."""
        self.draining = False
        """Shutdown has begun."""

    def start(self) -> None:
        """Report ready from now on."""
        self.started = True

    def drain(self) -> None:
        """Report unready from now on."""
        self.draining = True

    def probes(self, path: str) -> Mapping[str, Probe]:
        """The probes of `healthz`, `livez` or `readyz`."""
        if path != "readyz":
            return self.alive
        return {
            **self.alive,
            **self.ready,
            "bootstrap": self._bootstrap,
            "shutdown": self._shutdown,
        }

    async def _bootstrap(self) -> None:
        if not self.started:
            raise NotHealthy("bootstrap objects are not all there yet")

    async def _shutdown(self) -> None:
        if self.draining:
            raise NotHealthy("process is shutting down")

    async def answer(self, parts: Sequence[str], query: Mapping[str, Sequence[str]]) -> Response:
        """Answer `/readyz` or `/readyz/ping`; `parts` are the path's segments."""
        path, *rest = parts
        probes = self.probes(path)
        if rest:
            probe = probes.get("/".join(rest))
            return await _one(probe) if probe is not None else page_not_found()
        excluded = dict.fromkeys(query.get("exclude", ()))
        lines = [await _line(name, probe, excluded) for name, probe in probes.items()]
        unknown = [name for name in excluded if name not in probes]
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}\n")
        if any(line.startswith("[-]") for line in lines):
            return _failed(f"{''.join(lines)}{path} check failed")
        if "verbose" in query:
            return text(f"{''.join(lines)}{path} check passed\n")
        return text("ok")


async def _line(name: str, probe: Probe, excluded: Mapping[str, None]) -> str:
    if name in excluded:
        return f"[+]{name} excluded: ok\n"
    if await _problem(name, probe):
        return f"[-]{name} failed: reason withheld\n"
    return f"[+]{name} ok\n"


async def _one(probe: Probe) -> Response:
    if await _problem("", probe):
        return _failed("internal server error: reason withheld")
    return text("ok")


async def _problem(name: str, probe: Probe) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await probe()
    except Exception as error:
        _log.info("health check %s failed: %s", name, error)
        return True
    return False


def _failed(words: str) -> Response:
    answer = text(words + "\n", status=500)
    answer.headers.append(("X-Content-Type-Options", "nosniff"))
    return answer
