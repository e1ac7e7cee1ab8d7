"""Logging to standard error: one line of `key=value` pairs, or of JSON, per event; by default only
warnings. Credentials in a message, as in the URL of an error, do not get into a line.

The command line sets it up once. A server embedded in another program does not touch its logging.
"""

from __future__ import annotations

import fnmatch
import functools
import logging
import re
import time
from collections.abc import Sequence

import msgspec

from kapiserver.apiserver.output import STANDARD_ERROR
from kapiserver.apiserver.redaction import without_credentials

_LEVELS = {0: logging.WARNING, 1: logging.INFO}
FORMATS = TEXT, JSON = "text", "json"
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
        text = f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
        return without_credentials(text)


class JSONFormatter(logging.Formatter):
    """An object with `ts`, the milliseconds since the epoch, and `msg`, as component-base/logs/json
    of Kubernetes writes them, then `level`, `logger` and the fields; `err` is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        event |= getattr(record, FIELDS, None) or {}
        if record.exc_info:
            event["err"] = self.formatException(record.exc_info)
        text = msgspec.json.encode(event, enc_hook=str).decode(errors="replace")
        return without_credentials(text)


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


class Verbosity(msgspec.Struct, frozen=True):
    """How much is logged.

    level       0 for warnings, 1 for each request too, 2 for debug messages too
    modules     other levels, each with the pattern of a module's file name, as in klog, or of a
                logger; the first pattern that matches decides
    """

    level: int
    modules: Sequence[tuple[str, int]] = ()

    def of(self, logger: str, module: str) -> int:
        """Return the level of a logger that a module uses."""
        for pattern, level in self.modules:
            if fnmatch.fnmatchcase(module, pattern) or fnmatch.fnmatchcase(logger, pattern):
                return level
        return self.level


class _ModuleFilter(logging.Filter):
    """Drops what a module logs above its level."""

    def __init__(self, verbosity: Verbosity) -> None:
        super().__init__()
        self._level = functools.lru_cache(maxsize=1024)(verbosity.of)

    def filter(self, record: logging.LogRecord) -> bool:
        level = self._level(record.name, record.module)
        return record.levelno >= _LEVELS.get(level, logging.DEBUG)


def set_up(verbosity: Verbosity, log_format: str = TEXT) -> None:
    """Log to standard error, in one of FORMATS."""
    handler = _StandardErrorHandler()
    handler.setFormatter(JSONFormatter() if log_format == JSON else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    highest = max((verbosity.level, *(level for _, level in verbosity.modules)))
    logging.getLogger("kapiserver").setLevel(_LEVELS.get(highest, logging.DEBUG))
    if verbosity.modules:
        handler.addFilter(_ModuleFilter(verbosity))
