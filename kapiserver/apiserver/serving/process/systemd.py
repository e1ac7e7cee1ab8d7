"""What a service of systemd tells its manager, and the sockets that it gets from it.

Without libsystemd: messages are datagrams to the socket in $NOTIFY_SOCKET, and listening sockets
are the descriptors from 3 on. A process that systemd has not started has none of these variables,
and nothing here has an effect. Mirrors sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3).

    READY=1         the server accepts requests; after a reload, too
    STATUS=...      the line that `systemctl status` shows
    RELOADING=1     SIGHUP is being handled (Type=notify-reload)
    STOPPING=1      the server drains; EXTEND_TIMEOUT_USEC says how long that may take
    WATCHDOG=1      the event loop runs; systemd restarts a service that does not say so in time
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence

from kapiserver.apiserver.config import Config

FIRST_DESCRIPTOR = 3
_MICROSECONDS = 1_000_000
_WATCHDOG_SHARE = 0.5
"""The share of the watchdog's time after which the server reports again, as sd_watchdog_enabled(3)
recommends."""
_STOP_MARGIN = 10.0
"""Seconds in which controllers and the store stop, after the requests have ended."""

_log = logging.getLogger(__name__)


class ServiceManager:
    """The manager that has started this process; without one, its methods do nothing."""

    def __init__(self) -> None:
        """Read and remove the variables of the environment, which child processes must not see."""
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        self._watchdog_seconds = _watchdog_seconds() * _WATCHDOG_SHARE if self._address else 0.0
        self._next_report = 0.0

    def ready(self, status: str) -> None:
        """Report that the server accepts requests."""
        self._notify("READY=1", f"STATUS={status}")

    async def report_life(self) -> None:
        """Report that the event loop runs, until the task is cancelled; return without a
        watchdog."""
        while self._watchdog_seconds:
            self.report_life_if_due()
            await asyncio.sleep(self._watchdog_seconds)

    def report_life_if_due(self) -> None:
        """Report that the process runs, if there is a watchdog and the last report is old."""
        now = time.monotonic()
        if self._watchdog_seconds and now >= self._next_report:
            self._next_report = now + self._watchdog_seconds
            self._notify("WATCHDOG=1")

    def reload(self, reload: Callable[[], None]) -> None:
        """Call `reload`, and report its begin and its end."""
        if not self._address:
            reload()
            return
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._notify("RELOADING=1", f"MONOTONIC_USEC={now}")
        try:
            reload()
        finally:
            self._notify("READY=1")

    def stopping(self, config: Config) -> None:
        """Report that the server drains."""
        seconds = config.shutdown.longest(config.limits.request_timeout) + _STOP_MARGIN
        self._notify(
            "STOPPING=1",
            f"EXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}",
            "STATUS=finishing requests in flight",
        )

    def _notify(self, *lines: str) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):  # a name in Linux's abstract namespace
            address = f"\0{address[1:]}"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.connect(address)
                sender.send("\n".join(lines).encode())
        except OSError as error:
            _log.warning("cannot notify systemd of %s: %s", lines[0], error)


def _watchdog_seconds() -> float:
    """Return the time of the watchdog of this process, 0 without one."""
    text, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
    if pid not in ("", str(os.getpid())) or not text.isdecimal():
        return 0.0
    return int(text) / _MICROSECONDS


def passed_sockets() -> Sequence[socket.socket]:
    """Return the listening sockets that systemd has passed to this process, and remove the
    variables that name them; () if there are none. Raises ValueError for another kind of socket."""
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return ()
    return [_listening(FIRST_DESCRIPTOR + number) for number in range(int(count))]


def _listening(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    try:
        passed = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ValueError(f"systemd passed descriptor {descriptor}: {error.strerror}") from None
    is_tcp = passed.family in (socket.AF_INET, socket.AF_INET6)
    if not is_tcp or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        passed.detach()
        raise ValueError(
            f"systemd passed descriptor {descriptor}, which is not a listening TCP socket: the "
            "socket unit needs ListenStream= with an address and a port"
        )
    passed.setblocking(False)
    return passed
