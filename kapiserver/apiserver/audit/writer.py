"""Writes audit events to a log, in batches beside the requests or before they go on.

Mirrors plugin/pkg/audit/buffered and plugin/pkg/audit/log of k8s.io/apiserver.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.metrics import Counter

CLOSE_SECONDS = 5.0
"""How long the end of a server waits until the queued events are written."""
_PLUGIN = "log"

_log = logging.getLogger(__name__)


class AuditWriter:
    """Writes events to a log file.

    encode      returns the line of an event
    batch       whether a thread writes; else the caller waits for the file
    buffer_size events that may wait for the thread; more are dropped
    events, errors  count the events, and those that were dropped or not written, by plugin
    """

    def __init__(
        self,
        file: LogFile,
        encode: Callable[[AuditEvent], bytes],
        *,
        batch: bool,
        buffer_size: int,
        events: Counter[str],
        errors: Counter[str],
    ) -> None:
        self._file = file
        self._encode = encode
        self._events = events
        self._errors = errors
        self._failing = False
        self._queue: queue.Queue[AuditEvent | None] = queue.Queue(buffer_size)
        self._thread: threading.Thread | None = None
        if batch:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Open the file and begin to write. Raises OSError."""
        self._file.open()
        if self._thread is not None:
            self._thread.start()

    def stop(self) -> None:
        """Write the queued events and close the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(CLOSE_SECONDS)
        self._file.close()

    def submit(self, event: AuditEvent) -> None:
        """Write an event, or queue it. An event that finds the queue full is dropped and
        counted."""
        self._events.add(_PLUGIN)
        if self._thread is None:
            self._write(event)
            return
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._fail("its queue is full")

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            self._write(event)

    def _write(self, event: AuditEvent) -> None:
        try:
            self._file.write(self._encode(event))
        except Exception as error:  # an event that cannot be written must not end the thread
            self._fail(str(error))
        else:
            self._failing = False

    def _fail(self, reason: str) -> None:
        self._errors.add(_PLUGIN)
        if not self._failing:
            _log.warning("audit events are lost: %s", reason)
        self._failing = True
