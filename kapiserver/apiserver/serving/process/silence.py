"""How long a worker has been silent, which tells its supervisor that it hangs.

A worker reports every second that its event loop runs (`WorkerChannel.report_life`). One that does
not may wait for a lock for ever, compute without end, or be stopped: it serves nobody, and if it is
the first, the loops and the Leases of the server stand still. Its process lives, so that nothing
else would end it. But when a container or a virtual machine was paused, all workers are silent, and
the supervisor may be the first that goes on. So only the time counts in which the supervisor ran.

Pure: times in, answers out.
"""

from __future__ import annotations

from msgspec import Struct

SILENT_SECONDS = 30.0
"""A worker that is silent for longer hangs. As in gunicorn."""


class Silence(Struct):
    """Decides which workers hang, from one look at them to the next.

    limit       a worker that is silent for this many seconds hangs
    looked_at   the time of the last look
    since       earlier silence does not count
    """

    limit: float = SILENT_SECONDS
    looked_at: float = float("-inf")
    since: float = float("-inf")

    def look(self, now: float) -> None:
        """Begin a look at the workers. If the last one is long ago, this process did not run
        meanwhile, and the workers perhaps did not either."""
        if now > self.looked_at + self.limit / 2:
            self.since = now
        self.looked_at = now

    def is_too_long(self, heard_at: float) -> bool:
        """Return whether a worker hangs that was heard at this time and not again."""
        return self.looked_at > max(heard_at, self.since) + self.limit
