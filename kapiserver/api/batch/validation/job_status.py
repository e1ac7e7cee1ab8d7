"""Validation of what a job's controller, of whoever's make, reports of it.

Most hold only for what a report changes, so that one is never refused for what was wrong before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api.batch.indexes import first_common, intervals
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.errors import OMITTED, FieldError, Path, duplicate, invalid, required
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.types import Tree

_STATUS = Path("status")
_CONDITIONS = _STATUS / "conditions"
_FINAL = ("Failed", "Complete", "FailureTarget")


class _Report:
    """A job as it is reported: its status, and which conditions are true."""

    def __init__(self, job: Tree) -> None:
        self.spec: Tree = job.get("spec") or {}
        self.status: Tree = job.get("status") or {}
        self.true = {
            condition.get("type")
            for condition in self.status.get("conditions") or ()
            if condition.get("status") == "True"
        }
        self.is_finished = bool(self.true.intersection(("Complete", "Failed")))
        self.is_indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")


def validate_job_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the controller reports."""
    now, before = _Report(new), _Report(old)
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from validate_nonnegative_field(now.status, name, _STATUS)
    yield from _uncounted(now.status.get("uncountedTerminatedPods") or {})
    yield from _validate_completion(now, before)
    yield from _validate_times(now, before)
    yield from _consequences(now, before)
    yield from _pods_at_the_end(now, before)
    yield from _validate_indexes(now, before)
    yield from _validate_pods(now, before)
    yield from _success(now)
    yield from _goes_on(now, before)


def _uncounted(pods: Tree) -> Iterator[FieldError]:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(kind) or ()):
            uid_path = (_STATUS / "uncountedTerminatedPods" / kind)[index]
            if not uid:
                yield invalid(uid_path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(uid_path, uid)
            seen.add(uid)


def _is_news(now: _Report, old_now: _Report, *types: str) -> bool:
    return any((type_ in now.true) != (type_ in old_now.true) for type_ in types)


def _validate_completion(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    for other in ("Failed", "FailureTarget"):
        if {"Complete", other} <= now.true and _is_news(now, old_now, "Complete", other):
            detail = f"cannot set Complete=True and {other}=true conditions"
            yield invalid(_CONDITIONS, OMITTED, detail)


def _consequences(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    failed = _is_news(now, old_now, "Failed") or _news(now, old_now)("failedIndexes")
    complete = _is_news(now, old_now, "Complete", "SuccessCriteriaMet")
    for news, end, cause in (
        (failed, "Failed", "FailureTarget"),
        (complete, "Complete", "SuccessCriteriaMet"),
    ):
        if news and end in now.true and cause not in now.true:
            detail = f"cannot set {end}=True condition without the {cause}=true condition"
            yield invalid(_CONDITIONS, OMITTED, detail)


def _success(now: _Report) -> Iterator[FieldError]:
    for other in ("Failed", "FailureTarget"):
        if {"SuccessCriteriaMet", other} <= now.true:
            detail = f"cannot set SuccessCriteriaMet=True and {other}=true conditions"
            yield invalid(_CONDITIONS, OMITTED, detail)
    is_unfounded = "Complete" in now.true and "SuccessCriteriaMet" not in now.true
    if is_unfounded and now.spec.get("successPolicy") is not None:
        detail = (
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )
        yield invalid(_CONDITIONS, OMITTED, detail)


def _news(now: _Report, old_now: _Report) -> Callable[[str], bool]:
    return lambda name: now.status.get(name) != old_now.status.get(name)


def _validate_times(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    is_news, completion_time_path = _news(now, old_now), _STATUS / "completionTime"
    start, end = now.status.get("startTime"), now.status.get("completionTime")
    complete = "Complete" in now.true
    if is_news("completionTime") or complete != ("Complete" in old_now.true):
        if end and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(completion_time_path, end, detail)
        if complete and not end:
            yield required(completion_time_path, "completionTime is required for Complete jobs")
    if (is_news("startTime") or is_news("completionTime")) and start and end and end < start:
        yield invalid(completion_time_path, end, "must be equal to or after `startTime`")


def _pods_at_the_end(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    if not now.is_finished:
        return
    is_news, status = _news(now, old_now), now.status
    is_end = not old_now.is_finished
    active = status.get("active") or 0
    if active > 0 and (is_end or is_news("active")):
        yield invalid(_STATUS / "active", active, "active>0 is invalid for finished job")
    idle = bool(now.spec.get("suspend")) and now.completions == 0
    if not status.get("startTime") and (is_end or is_news("startTime")) and not idle:
        yield required(_STATUS / "startTime", "startTime is required for finished job")
    name = "uncountedTerminatedPods"
    if any((status.get(name) or {}).values()) and (is_end or is_news(name)):
        yield invalid(_STATUS / name, status[name], "must be empty for finished job")


def _validate_pods(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    is_news, status = _news(now, old_now), now.status
    active, ready = status.get("active") or 0, status.get("ready")
    terminating = status.get("terminating") or 0
    is_end = now.is_finished != old_now.is_finished
    if now.is_finished and terminating > 0 and (is_end or is_news("terminating")):
        detail = "terminating>0 is invalid for finished job"
        yield invalid(_STATUS / "terminating", terminating, detail)
    if ready is not None and ready > active and (is_news("ready") or is_news("active")):
        yield invalid(_STATUS / "ready", ready, "cannot set more ready pods than active")


def _validate_indexes(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    is_news, total = _news(now, old_now), now.completions
    done, failed = now.status.get("completedIndexes") or "", now.status.get("failedIndexes")
    by_index = now.spec.get("backoffLimitPerIndex") is not None
    at_done, at_failed = _STATUS / "completedIndexes", _STATUS / "failedIndexes"
    more_done, more_failed = is_news("completedIndexes"), is_news("failedIndexes")
    if more_done and total is not None:
        yield from _spelled(done, total, at_done)
    if more_failed and total is not None and by_index and failed is not None:
        yield from _spelled(failed, total, at_failed)
    if more_done and done and not now.is_indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid(at_done, done, detail)
    if failed is None:
        return
    if more_failed and not by_index:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(at_failed, failed, detail)
    if total is not None and (more_done or more_failed):
        try:
            both = first_common(intervals(done, total), intervals(failed, total))
        except ValueError:  # said above
            return
        if both is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield invalid(at_failed, failed, detail)


def _spelled(text: str, completions: int, path: Path) -> Iterator[FieldError]:
    try:
        intervals(text, completions)
    except ValueError as error:
        name = str(path).rpartition(".")[2]
        yield invalid(path, text, f"error parsing {name}: {error}")


def _goes_on(now: _Report, old_now: _Report) -> Iterator[FieldError]:
    # What was reported once and cannot be undone.
    status, was = now.status, old_now.status
    for type_ in _FINAL:
        if type_ in old_now.true and type_ not in now.true:
            detail = f"cannot disable the terminal {type_}=True condition"
            yield invalid(_CONDITIONS, OMITTED, detail)
    shrinks = now.is_indexed and now.completions == now.spec.get("parallelism")
    for name in ("failed", "succeeded"):
        count = status.get(name) or 0
        if count < (was.get(name) or 0) and not (name == "succeeded" and shrinks):
            yield invalid(_STATUS / name, count, f"cannot decrease the {name} counter")
    end = status.get("completionTime")
    if end and was.get("completionTime") not in (None, end):
        yield invalid(_STATUS / "completionTime", end, IMMUTABLE)
    started = was.get("startTime")
    if started and started != status.get("startTime") and not now.spec.get("suspend"):
        detail = f"{IMMUTABLE} for unsuspended job once set"
        yield invalid(_STATUS / "startTime", status.get("startTime"), detail)
    if "SuccessCriteriaMet" in old_now.true and "SuccessCriteriaMet" not in now.true:
        detail = "cannot disable the SuccessCriteriaMet=True condition"
        yield invalid(_CONDITIONS, OMITTED, detail)
    if "Complete" in old_now.true and "SuccessCriteriaMet" in now.true - old_now.true:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid(_CONDITIONS, OMITTED, detail)
