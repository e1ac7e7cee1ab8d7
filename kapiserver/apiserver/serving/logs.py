"""Logging to standard error: one line of `key=value` pairs per event; by default only warnings.

The command line sets it up once. A server embedded in another program does not touch its logging.
"""

from __future__ import annotations

import logging
import re
import time

from kapiserver.apiserver.output import STANDARD_ERROR

_LEVELS = {0: logging.WARNING, 1: logging.INFO}
FIELDS = "fields"
"""A log call with `extra={FIELDS: {...}}` adds these pairs to its line."""


class LineFormatter(logging.Formatter):
    """`time=... level=... logger=... msg="..."`, then the fields, then a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        pairs = [
            f"time={seconds}.{int(record.msecs):03}Z",
            f"level={record.levelname.lower()}",
            f"logger={record.name}",
            f"msg={_quoted(record.getMessage())}",
        ]
        fields = getattr(record, FIELDS, None) or {}
        pairs += [f"{key}={_quoted(str(value))}" for key, value in fields.items()]
        line = " ".join(pairs)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")
"""Text that needs no quotes."""


def _quoted(text: str) -> str:
    # Text from a client must not break a log line or forge another.
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in escaped)
    return f'"{escaped}"'


class _StandardErrorHandler(logging.Handler):
    """Writes lines in a thread, so that the event loop never waits for a reader of the log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            STANDARD_ERROR.write(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Wait until the lines are written, for a bounded time. The end of the process calls it."""
        STANDARD_ERROR.close()
        super().close()


def set_up(verbosity: int) -> None:
    """Log to standard error: warnings (0), each request too (1), or debug messages too (2)."""
    handler = _StandardErrorHandler()
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kapiserver").setLevel(_LEVELS.get(verbosity, logging.DEBUG))
