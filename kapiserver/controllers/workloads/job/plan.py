"""The core of Jobs: which pods to create, delete and count, and the status.

The end of a pod is counted exactly once, although the Job's status and the pod cannot be written
together. Each pod has a finalizer, which keeps it until these steps are done:

| step | the status of the Job | the pod |
| --- | --- | --- |
| 1 | its uid is in `uncountedTerminatedPods` | has the finalizer |
| 2 | | loses the finalizer |
| 3 | the uid is gone, `succeeded` or `failed` is one higher | |

A crash between two steps leaves what the next reconcile continues from. For an Indexed Job the
index in `completedIndexes` takes the place of the uid of a pod that succeeded.

A Job that is to end gets the condition SuccessCriteriaMet or FailureTarget first, and Complete or
Failed when all its pods have ended and are counted. Mirrors syncJob of pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from kapiserver.api.accessors import is_terminating, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.job.backoff import (
    Backoff,
    finish_time,
    remaining_seconds,
)
from kapiserver.controllers.workloads.job.indexes import index_of, indexes_text, parse_indexes
from kapiserver.controllers.workloads.job.job_pods import (
    all_index_failures,
    index_failures,
    is_tracked,
    new_pod,
)
from kapiserver.controllers.workloads.job.outcome import (
    FAILURE,
    SUCCESS,
    Outcome,
    count_pods,
    job_condition,
)
from kapiserver.controllers.workloads.job.policies import (
    has_failed,
    met_success_rule,
    replaces_failed_only,
    verdict_on,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import (
    is_active,
    is_finished,
    is_ready,
    phase_of,
    pods_to_delete,
    seconds_of,
)
from kapiserver.storage.objects.lifecycle import timestamp

MAX_PODS = 500
"""The pods that one reconcile creates, deletes or counts at most."""


class JobPlan(Struct):
    """The actions for one Job, in the order in which they are carried out.

    forget            surplus pods, which lose their finalizer and are deleted without being counted
    delete            pods to delete, which are counted
    create            pods to create
    status            the status before `remove_finalizer`
    remove_finalizer  pods that the status counts
    outcome           why the Job is about to end, or None
    policy_actions    what the podFailurePolicy says of each failed pod that it matches
    backoff           the failures so far
    requeue_after     seconds until the next reconcile, or None
    """

    status: Tree
    backoff: Backoff
    forget: Sequence[Tree] = ()
    delete: Sequence[Tree] = ()
    create: Sequence[Tree] = ()
    remove_finalizer: list[Tree] = field(default_factory=list)
    outcome: Outcome | None = None
    policy_actions: list[str] = field(default_factory=list)
    events: list[PlannedEvent] = field(default_factory=list)
    requeue_after: float | None = None


def plan_job(job: Tree, pods: Sequence[Tree], backoff: Backoff, now: float) -> JobPlan:
    """Return the plan for an unfinished Job and its pods."""
    return _Planner(job, pods, backoff, now).run()


class _Planner:
    """Computes the plan for one Job."""

    def __init__(self, job: Tree, pods: Sequence[Tree], backoff: Backoff, now: float) -> None:
        self._job = job
        self._pods = pods
        self._now = now
        spec: Tree = job.get("spec") or {}
        self._spec = spec
        self._completions: int | None = spec.get("completions")
        self._parallelism: int = spec.get("parallelism", 1)
        self._is_indexed = spec.get("completionMode") == "Indexed"
        self._per_index: int | None = spec.get("backoffLimitPerIndex")
        self._is_suspended = bool(spec.get("suspend"))
        tracked = {uid_of(pod) for pod in pods if is_tracked(pod)}
        self._status = count_pods(job.get("status") or {}, tracked)
        uncounted = self._status["uncountedTerminatedPods"]
        self._uncounted = {name: set(uncounted.get(name) or ()) for name in ("succeeded", "failed")}
        self._active = [pod for pod in pods if is_active(pod)]
        self._terminating = sum(is_terminating(pod) and not is_finished(pod) for pod in pods)
        new_succeeded = self._uncounted_pods("succeeded", lambda pod: phase_of(pod) == "Succeeded")
        new_failed = self._uncounted_pods("failed", lambda pod: has_failed(pod, job))
        self._backoff = backoff.after(new_succeeded, new_failed)
        self._succeeded = self._count("succeeded", len(new_succeeded))
        self._failed = self._count("failed", sum(verdict_on(pod, job).counts for pod in new_failed))
        self._before = parse_indexes(self._status.get("completedIndexes"), self._all_indexes)
        self._succeeded_indexes = self._before
        self._failed_indexes: frozenset[int] = frozenset()
        self._plan = JobPlan(status={}, backoff=self._backoff)

    @property
    def _all_indexes(self) -> int:
        """The number of indexes; 0 if the Job is not indexed."""
        return (self._completions or 0) if self._is_indexed else 0

    def _count(self, name: str, new: int) -> int:
        return (self._status.get(name) or 0) + len(self._uncounted[name]) + new

    def _uncounted_pods(self, name: str, ended: Callable[[Tree], bool]) -> list[Tree]:
        return [
            pod
            for pod in self._pods
            if is_tracked(pod)
            and uid_of(pod) not in self._uncounted[name]
            and (not self._is_indexed or self._index(pod) is not None)
            and ended(pod)
        ]

    def _index(self, pod: Tree) -> int | None:
        return index_of(pod, self._all_indexes)

    def run(self) -> JobPlan:
        """Compute the plan."""
        plan, status = self._plan, self._status
        if not status.get("startTime") and not self._is_suspended:
            status["startTime"] = timestamp(self._now)
        outcome = self._present_outcome() or self._policy_failure() or self._limit_failure()
        if self._is_indexed:
            self._read_indexes()
            outcome = outcome or self._index_failure() or self._policy_success()
        active, ready = len(self._active), sum(map(is_ready, self._active))
        if outcome is not None:
            plan.delete = self._active
            self._terminating += active
            active = ready = 0
        else:
            removed = self._manage()
            active += len(plan.create) - len(removed)
            ready -= sum(map(is_ready, removed))
            self._terminating += sum(bool(value_at(pod, "spec", "nodeName")) for pod in removed)
            if self._is_complete(active):
                message = "Reached expected number of succeeded pods"
                outcome = Outcome(SUCCESS, "CompletionsReached", message)
            else:
                self._note_suspension()
        self._set_number("active", active)
        status["ready"], status["terminating"] = ready, self._terminating
        self._track(outcome)
        plan.status = status
        return plan

    def _set_number(self, name: str, number: int) -> None:
        """Set a number of the status, which leaves 0 out."""
        self._status.pop(name, None)
        if number:
            self._status[name] = number

    # Outcomes.

    def _present_outcome(self) -> Outcome | None:
        """Return the outcome that an earlier reconcile has decided."""
        for type_ in (SUCCESS, FAILURE):
            condition = find_condition(self._status.get("conditions") or (), type_)
            if condition is not None and condition.get("status") == "True":
                return Outcome(type_, condition.get("reason") or "", condition.get("message") or "")
        return None

    def _policy_failure(self) -> Outcome | None:
        for pod in self._pods:
            if has_failed(pod, self._job):
                message = verdict_on(pod, self._job).job_failure
                if message:
                    return Outcome(FAILURE, "PodFailurePolicy", message)
        return None

    def _limit_failure(self) -> Outcome | None:
        limit = self._spec.get("backoffLimit", 6)
        if self._failed > limit or self._restarts_exceed(limit):
            message = "Job has reached the specified backoff limit"
            return Outcome(FAILURE, "BackoffLimitExceeded", message)
        deadline = self._spec.get("activeDeadlineSeconds")
        start = seconds_of(self._status.get("startTime"))
        if deadline is None or start is None or self._is_suspended:
            return None
        remaining_seconds = start + deadline - self._now
        if remaining_seconds <= 0:
            message = "Job was active longer than specified deadline"
            return Outcome(FAILURE, "DeadlineExceeded", message)
        self._requeue_after(remaining_seconds)
        return None

    def _restarts_exceed(self, limit: int) -> bool:
        """Report whether the containers of the running pods restarted too often; only those of
        pods with the restart policy OnFailure do."""
        if value_at(self._spec, "template", "spec", "restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            status.get("restartCount") or 0
            for pod in self._pods
            if phase_of(pod) in ("Running", "Pending")
            for name in ("initContainerStatuses", "containerStatuses")
            for status in value_at(pod, "status", name) or ()
        )
        return restarts > 0 if limit == 0 else restarts >= limit

    def _index_failure(self) -> Outcome | None:
        if self._per_index is None:
            return None
        failed, maximum = len(self._failed_indexes), self._spec.get("maxFailedIndexes")
        if maximum is not None and failed > maximum:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return Outcome(FAILURE, "MaxFailedIndexesExceeded", message)
        if failed and failed + len(self._succeeded_indexes) >= self._all_indexes:
            return Outcome(FAILURE, "FailedIndexes", "Job has failed indexes")
        return None

    def _policy_success(self) -> Outcome | None:
        message = met_success_rule(self._job, self._succeeded_indexes, self._all_indexes)
        return Outcome(SUCCESS, "SuccessPolicy", message) if message else None

    def _is_complete(self, active: int) -> bool:
        completions = 1 if self._completions is None else self._completions
        return active == 0 and self._succeeded >= completions

    def _requeue_after(self, seconds: float) -> None:
        present = self._plan.requeue_after
        self._plan.requeue_after = seconds if present is None else min(present, seconds)

    # Indexes.

    def _read_indexes(self) -> None:
        new = {
            index
            for pod in self._pods
            if is_tracked(pod)
            and phase_of(pod) == "Succeeded"
            and (index := self._index(pod)) is not None
        }
        self._succeeded_indexes = self._before | new
        self._succeeded = len(self._succeeded_indexes)
        if self._per_index is None:
            return
        failed = {
            index
            for pod in self._pods
            if is_tracked(pod)
            and (index := self._index(pod)) is not None
            and self._fails_its_index(pod)
        }
        before = parse_indexes(self._status.get("failedIndexes"), self._all_indexes)
        self._failed_indexes = before | failed

    def _fails_its_index(self, pod: Tree) -> bool:
        if not has_failed(pod, self._job) or self._per_index is None:
            return False
        verdict = verdict_on(pod, self._job)
        exhausted = verdict.counts and index_failures(pod) >= self._per_index
        return verdict.action == "FailIndex" or exhausted

    def _kept_for_replacement(self) -> dict[int, Tree]:
        """Return the last failed pod of each index that waits for another pod. It keeps its
        finalizer until then, because the new pod takes over its count of failures."""
        failed_pods: dict[int, Tree] = {}
        if self._per_index is None:
            return failed_pods
        finished = {index for pod in self._active if (index := self._index(pod)) is not None}
        finished |= self._succeeded_indexes | self._failed_indexes
        for pod in self._pods:
            index = self._index(pod)
            if index is None or index in finished or not is_tracked(pod):
                continue
            if has_failed(pod, self._job):
                last = failed_pods.get(index)
                if last is None or _attempt(pod) >= _attempt(last):
                    failed_pods[index] = pod
        return failed_pods

    # Pods.

    def _manage(self) -> Sequence[Tree]:
        """Plan the pods to create or to delete, and return the latter."""
        if is_terminating(self._job):
            return ()
        active = len(self._active)
        if self._is_suspended:
            self._plan.forget = self._active
            return self._active
        desired = self._desired_active(active)
        surplus = self._surplus(max(active - desired, 0))
        if surplus:
            self._plan.forget = surplus[:MAX_PODS]
            return self._plan.forget
        terminating = self._terminating if replaces_failed_only(self._job) else 0
        missing = min(desired - terminating - active, MAX_PODS)
        if missing > 0:
            self._plan.create = self._new_pods(missing)
        return ()

    def _desired_active(self, active: int) -> int:
        if self._completions is None:
            return active if self._succeeded else self._parallelism
        return max(min(self._completions - self._succeeded, self._parallelism), 0)

    def _surplus(self, count: int) -> list[Tree]:
        """Return at least `count` active pods to remove: those without a valid index or with the
        index of another pod, then those in which least is lost."""
        if not self._is_indexed:
            return list(pods_to_delete(self._active, (), count, self._now))
        by_index: dict[int | None, list[Tree]] = {}
        for pod in self._active:
            by_index.setdefault(self._index(pod), []).append(pod)
        surplus, others = by_index.pop(None, []), []
        for same in by_index.values():
            duplicates = pods_to_delete(same, (), len(same) - 1, self._now) if same[1:] else ()
            surplus += duplicates
            others += [pod for pod in same if not any(pod is duplicate for duplicate in duplicates)]
        return surplus + list(pods_to_delete(others, (), max(count - len(surplus), 0), self._now))

    def _new_pods(self, count: int) -> Sequence[Tree]:
        if self._per_index is None:
            wait = self._backoff.remaining(self._now)
            if wait > 0:
                self._requeue_after(wait)
                return ()
        if not self._is_indexed:
            return [new_pod(self._job, None, None) for _ in range(count)]
        failed_pods = self._kept_for_replacement()
        indexes = self._pending_indexes(count)
        waits = {index: self._index_wait(failed_pods.get(index)) for index in indexes}
        due = [index for index in indexes if not waits[index]]
        if not due and waits:
            self._requeue_after(min(waits.values()))
        return [new_pod(self._job, index, failed_pods.get(index)) for index in due]

    def _index_wait(self, last: Tree | None) -> float:
        if last is None:
            return 0.0
        return remaining_seconds(all_index_failures(last) + 1, finish_time(last), self._now)

    def _pending_indexes(self, count: int) -> list[int]:
        taken = set(self._succeeded_indexes | self._failed_indexes)
        for pod in self._pods:
            holds = is_active(pod) or (
                replaces_failed_only(self._job) and is_terminating(pod) and not is_finished(pod)
            )
            index = self._index(pod)
            if holds and index is not None:
                taken.add(index)
        pending: list[int] = []
        for index in range(self._all_indexes):
            if len(pending) == count:
                break
            if index not in taken:
                pending.append(index)
        return pending

    # Counting.

    def _track(self, outcome: Outcome | None) -> None:
        """Plan step 1 and step 2 for the pods that have ended. The Job does not end before a
        reconcile that counts the last of them."""
        new_indexes: set[int] = set()
        is_cut = self._count_ended(outcome, new_indexes)
        self._write_counts(new_indexes)
        self._write_outcome(outcome)
        self._plan.outcome = None if is_cut else outcome

    def _count_ended(self, outcome: Outcome | None, new_indexes: set[int]) -> bool:
        """Count the pods that have ended; return whether some are left for the next reconcile."""
        replaceable = {uid_of(pod) for pod in self._kept_for_replacement().values()}
        releases_all = is_terminating(self._job) or outcome is not None
        order = self._pods
        if self._is_indexed:
            order = sorted(order, key=lambda pod: self._index(pod) or 0)
        for pod in order:
            if not is_tracked(pod):
                continue
            if self._plan_size(new_indexes) >= MAX_PODS:
                return True
            failed = has_failed(pod, self._job)
            succeeded = phase_of(pod) == "Succeeded"
            if not releases_all and not succeeded and (not failed or uid_of(pod) in replaceable):
                continue
            self._plan.remove_finalizer.append(pod)
            if succeeded and uid_of(pod) not in self._uncounted["failed"]:
                self._count_success(pod, new_indexes)
            elif failed or (outcome is not None and outcome.type == FAILURE):
                self._count_failure(pod)
        return False

    def _plan_size(self, new_indexes: set[int]) -> int:
        return len(new_indexes) + sum(map(len, self._uncounted.values()))

    def _count_success(self, pod: Tree, new_indexes: set[int]) -> None:
        if not self._is_indexed:
            self._uncounted["succeeded"].add(uid_of(pod))
        elif (index := self._index(pod)) is not None and index not in self._before:
            new_indexes.add(index)

    def _count_failure(self, pod: Tree) -> None:
        verdict, failed = verdict_on(pod, self._job), self._uncounted["failed"]
        if verdict.action and uid_of(pod) not in failed:
            self._plan.policy_actions.append(verdict.action)
        has_index = not self._is_indexed or self._index(pod) is not None
        if has_index and verdict.counts:
            failed.add(uid_of(pod))

    def _write_counts(self, new_indexes: set[int]) -> None:
        self._status["uncountedTerminatedPods"] = {
            name: sorted(uids) for name, uids in self._uncounted.items() if uids
        }
        if not self._is_indexed:
            return
        completed = self._before | new_indexes
        self._set_number("succeeded", len(completed))
        self._status.pop("completedIndexes", None)
        if completed:
            self._status["completedIndexes"] = indexes_text(completed)
        if self._per_index is not None:
            self._status["failedIndexes"] = indexes_text(self._failed_indexes)

    def _write_outcome(self, outcome: Outcome | None) -> None:
        if outcome is not None and self._present_outcome() is None:
            condition = job_condition(
                outcome.type, "True", outcome.reason, outcome.message, self._now
            )
            self._status["conditions"] = [*(self._status.get("conditions") or ()), condition]

    def _note_suspension(self) -> None:
        """Note in the conditions that the Job was suspended or resumed."""
        if is_terminating(self._job):
            return
        conditions: list[Tree] = list(self._status.get("conditions") or ())
        present = find_condition(conditions, "Suspended")
        status = "True" if self._is_suspended else "False"
        if present is None and not self._is_suspended:
            return
        if present is not None and present.get("status") == status:
            return
        word = "suspended" if self._is_suspended else "resumed"
        reason, message = f"Job{word.capitalize()}", f"Job {word}"
        condition = job_condition("Suspended", status, reason, message, self._now)
        if present is None:
            conditions.append(condition)
        else:
            conditions[conditions.index(present)] = condition
        self._status["conditions"] = conditions
        self._plan.events.append(PlannedEvent(word.capitalize(), message))
        if self._is_suspended:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = timestamp(self._now)


def _attempt(pod: Tree) -> tuple[int, float]:
    return all_index_failures(pod), finish_time(pod)
