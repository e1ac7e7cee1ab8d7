"""The settings of a shutdown, a section of the server's configuration; `app.py` carries it out."""

from __future__ import annotations

from msgspec import Struct


class ShutdownSettings(Struct, frozen=True, kw_only=True):
    """How a server stops. Times are in seconds.

    shutdown_delay_duration     how long it serves as before, but reports unready
    shutdown_send_retry_after   accept connections until the requests in flight have finished, and
                                answer new requests with 429
    shutdown_watch_termination_grace_period     over which time watches end; 0: all at once
    shutdown_timeout            how long requests in flight may take at the end
    """

    shutdown_delay_duration: float = 0.0
    shutdown_send_retry_after: bool = False
    shutdown_watch_termination_grace_period: float = 0.0
    shutdown_timeout: float = 10.0

    def longest(self, request_timeout: float) -> float:
        """Return the seconds that the requests of a server may take to finish."""
        seconds = self.shutdown_delay_duration + self.shutdown_timeout
        seconds += self.shutdown_watch_termination_grace_period
        return seconds + request_timeout * self.shutdown_send_retry_after
