"""Batches of jobs of the thread that writes the embedded store: writes and other calls.

A job always gets an outcome, whatever its work raises, so that no caller waits for ever. Knows no
thread, and of the event loop only the futures of the jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from kapiserver.api.errors import drop_tracebacks
from kapiserver.storage.errors import Corrupt, StorageError, Unavailable
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.sqlite.database import Database

MAX_BATCH = 256
"""Maximum number of writes in one transaction."""

_log = logging.getLogger(__name__)


class Job(Struct, frozen=True):
    """A job of the writer thread: a write, or a function of its database."""

    work: Write | Callable[[Database], Any]
    future: asyncio.Future[Any]


class JobResult(Struct, frozen=True):
    """The result of a job: a value, or the error to raise."""

    job: Job
    outcome: Any


def run_batch(database: Database, jobs: Sequence[Job]) -> list[JobResult]:
    """Run a batch: all writes in one transaction first, then the other jobs. Raises nothing."""
    results: list[JobResult] = []
    writes = [job for job in jobs if isinstance(job.work, Write)]
    if writes:
        outcomes = _apply(database, [job.work for job in writes if isinstance(job.work, Write)])
        results = [JobResult(job, outcome) for job, outcome in zip(writes, outcomes, strict=True)]
    for job in jobs:
        if not isinstance(job.work, Write):
            results.append(JobResult(job, _outcome(job.work, database)))
    return results


def _apply(database: Database, writes: Sequence[Write]) -> Sequence[Any]:
    """Return the outcome of each write. If a write raises an error that is not a StorageError, such
    as for a key that is not UTF-8, the other writes succeed."""
    # Truncate first: an error after the commit would fail writes that are stored.
    outcomes = _outcome(database.truncate_long_wal) or _outcome(database.apply, writes)
    if not isinstance(outcomes, StorageError):
        return list(outcomes)
    if isinstance(outcomes, _Failed) and len(writes) > 1:
        return [outcome for write in writes for outcome in _apply(database, [write])]
    return [outcomes] * len(writes)


class _Failed(Unavailable):
    """A job raised an error that is not a StorageError."""


def _outcome(work: Callable[..., Any], *args: Any) -> Any:
    """Return the result of the work, or the StorageError to raise. The error comes without a
    traceback: its frames lead to that of the caller, which keeps the error among the results, and
    that would be a reference cycle."""
    try:
        return work(*args)
    except StorageError as error:
        drop_tracebacks(error)
        return error
    except Exception as error:
        _log.exception("the store failed")
        return _Failed(f"the store failed: {error}")


def updated_write_error(write_error: str, results: Sequence[JobResult], database: Database) -> str:
    """Return the error of writes after a batch, "" if they succeed. Log a change of it."""
    outcomes = [result.outcome for result in results if isinstance(result.job.work, Write)]
    failed = [outcome for outcome in outcomes if isinstance(outcome, Unavailable | Corrupt)]
    if not failed and not (write_error and outcomes):
        return write_error
    # A small write may succeed while the disk is full for others.
    error = failed[0] if failed else _outcome(database.probe_write)
    if error is None:
        _log.warning("writes succeed again")
        return ""
    if str(error) != write_error:
        _log.error("writes fail: %s", error)
    return str(error)
