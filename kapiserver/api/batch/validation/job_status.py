"""Validation of job statuses, whichever controller writes them.

Most rules apply only to changed fields, so that an old invalid field does not block an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api.batch.indexes import first_common, parse_intervals
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.errors import OMITTED, FieldError, Path, duplicate, invalid, required
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.types import Tree

_STATUS = Path("status")
_CONDITIONS = _STATUS / "conditions"
_TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget")


class _JobState:
    """A job, with the types of its true conditions."""

    def __init__(self, job: Tree) -> None:
        self.spec: Tree = job.get("spec") or {}
        self.status: Tree = job.get("status") or {}
        self.true_conditions = {
            condition.get("type")
            for condition in self.status.get("conditions") or ()
            if condition.get("status") == "True"
        }
        self.is_finished = bool(self.true_conditions.intersection(("Complete", "Failed")))
        self.is_indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")


def validate_job_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated job status."""
    state, old_state = _JobState(new), _JobState(old)
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from validate_nonnegative_field(state.status, name, _STATUS)
    yield from _validate_uncounted_pods(state.status.get("uncountedTerminatedPods") or {})
    yield from _validate_completion(state, old_state)
    yield from _validate_times(state, old_state)
    yield from _validate_terminal_conditions(state, old_state)
    yield from _validate_finished_job(state, old_state)
    yield from _validate_indexes(state, old_state)
    yield from _validate_pods(state, old_state)
    yield from _validate_success_criteria(state)
    yield from _validate_transitions(state, old_state)


def _validate_uncounted_pods(pods: Tree) -> Iterator[FieldError]:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(kind) or ()):
            uid_path = (_STATUS / "uncountedTerminatedPods" / kind)[index]
            if not uid:
                yield invalid(uid_path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(uid_path, uid)
            seen.add(uid)


def _conditions_changed(state: _JobState, old_state: _JobState, *types: str) -> bool:
    return any(
        (type_ in state.true_conditions) != (type_ in old_state.true_conditions) for type_ in types
    )


def _validate_completion(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    for condition in ("Failed", "FailureTarget"):
        if {"Complete", condition} <= state.true_conditions and _conditions_changed(
            state, old_state, "Complete", condition
        ):
            detail = f"cannot set Complete=True and {condition}=true conditions"
            yield invalid(_CONDITIONS, OMITTED, detail)


def _validate_terminal_conditions(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    failed = _conditions_changed(state, old_state, "Failed") or _status_changes(state, old_state)(
        "failedIndexes"
    )
    complete = _conditions_changed(state, old_state, "Complete", "SuccessCriteriaMet")
    for has_changed, end, cause in (
        (failed, "Failed", "FailureTarget"),
        (complete, "Complete", "SuccessCriteriaMet"),
    ):
        if has_changed and end in state.true_conditions and cause not in state.true_conditions:
            detail = f"cannot set {end}=True condition without the {cause}=true condition"
            yield invalid(_CONDITIONS, OMITTED, detail)


def _validate_success_criteria(state: _JobState) -> Iterator[FieldError]:
    for condition in ("Failed", "FailureTarget"):
        if {"SuccessCriteriaMet", condition} <= state.true_conditions:
            detail = f"cannot set SuccessCriteriaMet=True and {condition}=true conditions"
            yield invalid(_CONDITIONS, OMITTED, detail)
    lacks_criteria = (
        "Complete" in state.true_conditions and "SuccessCriteriaMet" not in state.true_conditions
    )
    if lacks_criteria and state.spec.get("successPolicy") is not None:
        detail = (
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )
        yield invalid(_CONDITIONS, OMITTED, detail)


def _status_changes(state: _JobState, old_state: _JobState) -> Callable[[str], bool]:
    return lambda name: state.status.get(name) != old_state.status.get(name)


def _validate_times(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    has_changed = _status_changes(state, old_state)
    completion_time_path = _STATUS / "completionTime"
    start, end = state.status.get("startTime"), state.status.get("completionTime")
    complete = "Complete" in state.true_conditions
    if has_changed("completionTime") or complete != ("Complete" in old_state.true_conditions):
        if end and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(completion_time_path, end, detail)
        if complete and not end:
            yield required(completion_time_path, "completionTime is required for Complete jobs")
    if (
        (has_changed("startTime") or has_changed("completionTime"))
        and start
        and end
        and end < start
    ):
        yield invalid(completion_time_path, end, "must be equal to or after `startTime`")


def _validate_finished_job(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    if not state.is_finished:
        return
    has_changed, status = _status_changes(state, old_state), state.status
    is_newly_finished = not old_state.is_finished
    active = status.get("active") or 0
    if active > 0 and (is_newly_finished or has_changed("active")):
        yield invalid(_STATUS / "active", active, "active>0 is invalid for finished job")
    is_empty = bool(state.spec.get("suspend")) and state.completions == 0
    if (
        not status.get("startTime")
        and (is_newly_finished or has_changed("startTime"))
        and not is_empty
    ):
        yield required(_STATUS / "startTime", "startTime is required for finished job")
    name = "uncountedTerminatedPods"
    if any((status.get(name) or {}).values()) and (is_newly_finished or has_changed(name)):
        yield invalid(_STATUS / name, status[name], "must be empty for finished job")


def _validate_pods(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    has_changed, status = _status_changes(state, old_state), state.status
    active, ready = status.get("active") or 0, status.get("ready")
    terminating = status.get("terminating") or 0
    finish_changed = state.is_finished != old_state.is_finished
    if state.is_finished and terminating > 0 and (finish_changed or has_changed("terminating")):
        detail = "terminating>0 is invalid for finished job"
        yield invalid(_STATUS / "terminating", terminating, detail)
    if ready is not None and ready > active and (has_changed("ready") or has_changed("active")):
        yield invalid(_STATUS / "ready", ready, "cannot set more ready pods than active")


def _validate_indexes(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    has_changed, total = _status_changes(state, old_state), state.completions
    completed = state.status.get("completedIndexes") or ""
    failed = state.status.get("failedIndexes")
    has_limit_per_index = state.spec.get("backoffLimitPerIndex") is not None
    completed_path, failed_path = _STATUS / "completedIndexes", _STATUS / "failedIndexes"
    completed_changed = has_changed("completedIndexes")
    failed_changed = has_changed("failedIndexes")
    if completed_changed and total is not None:
        yield from _validate_index_text(completed, total, completed_path)
    if failed_changed and total is not None and has_limit_per_index and failed is not None:
        yield from _validate_index_text(failed, total, failed_path)
    if completed_changed and completed and not state.is_indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid(completed_path, completed, detail)
    if failed is None:
        return
    if failed_changed and not has_limit_per_index:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(failed_path, failed, detail)
    if total is not None and (completed_changed or failed_changed):
        try:
            common_index = first_common(
                parse_intervals(completed, total), parse_intervals(failed, total)
            )
        except ValueError:  # reported above
            return
        if common_index is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {common_index}"
            yield invalid(failed_path, failed, detail)


def _validate_index_text(text: str, completions: int, path: Path) -> Iterator[FieldError]:
    try:
        parse_intervals(text, completions)
    except ValueError as error:
        name = str(path).rpartition(".")[2]
        yield invalid(path, text, f"error parsing {name}: {error}")


def _validate_transitions(state: _JobState, old_state: _JobState) -> Iterator[FieldError]:
    # Conditions, counters and times that must not be reverted.
    status, old_status = state.status, old_state.status
    for type_ in _TERMINAL_CONDITIONS:
        if type_ in old_state.true_conditions and type_ not in state.true_conditions:
            detail = f"cannot disable the terminal {type_}=True condition"
            yield invalid(_CONDITIONS, OMITTED, detail)
    is_elastic = state.is_indexed and state.completions == state.spec.get("parallelism")
    for name in ("failed", "succeeded"):
        count = status.get(name) or 0
        if count < (old_status.get(name) or 0) and not (name == "succeeded" and is_elastic):
            yield invalid(_STATUS / name, count, f"cannot decrease the {name} counter")
    completion_time = status.get("completionTime")
    if completion_time and old_status.get("completionTime") not in (None, completion_time):
        yield invalid(_STATUS / "completionTime", completion_time, IMMUTABLE)
    old_start_time = old_status.get("startTime")
    if (
        old_start_time
        and old_start_time != status.get("startTime")
        and not state.spec.get("suspend")
    ):
        detail = f"{IMMUTABLE} for unsuspended job once set"
        yield invalid(_STATUS / "startTime", status.get("startTime"), detail)
    if (
        "SuccessCriteriaMet" in old_state.true_conditions
        and "SuccessCriteriaMet" not in state.true_conditions
    ):
        detail = "cannot disable the SuccessCriteriaMet=True condition"
        yield invalid(_CONDITIONS, OMITTED, detail)
    if (
        "Complete" in old_state.true_conditions
        and "SuccessCriteriaMet" in state.true_conditions - old_state.true_conditions
    ):
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid(_CONDITIONS, OMITTED, detail)
