"""The core of Jobs as a state machine: pods end or are deleted, the Job changes, the controller
crashes between two writes. Whatever happens, each end counts exactly once."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.controllers.workloads.job.backoff import Backoff
from kapiserver.controllers.workloads.job.indexes import parse_indexes
from kapiserver.controllers.workloads.job.job_pods import TRACKING_FINALIZER, is_tracked
from kapiserver.controllers.workloads.job.outcome import (
    count_pods,
    finish_job,
    finished_condition,
    is_job_finished,
)
from kapiserver.controllers.workloads.job.plan import plan_job
from tests.times import text_of

START = 1_700_000_000
INDEX = "batch.kubernetes.io/job-completion-index"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}


class Crash(Exception):
    """The controller ends between two writes."""


class World:
    """A Job, its pods, and how many of them really ended."""

    def __init__(self, **spec):
        metadata = {"name": "work", "namespace": "shop", "uid": "job"}
        fields = {"template": TEMPLATE, "parallelism": 2, "backoffLimit": 1000}
        self.job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
        self.job |= {"spec": fields | spec, "status": {}}
        self.pods, self.now, self.backoff = {}, START, Backoff()
        self.ended = Counter()
        self._uids = map(str, itertools.count())
        self._writes_left = None

    # What the controller does.

    def reconcile(self, writes=None):
        """Carry out one plan; crash after so many writes."""
        self._writes_left = writes
        if is_job_finished(self.job):
            for pod in self.pods.values():
                self._untrack(pod)
        else:
            try:
                self._carry_out(plan_job(self.job, [*self.pods.values()], self.backoff, self.now))
            except Crash:
                self.backoff = Backoff()
        self._check()

    def _carry_out(self, plan):
        for pod in plan.forget:
            self._write()
            self._untrack(pod)
        for pod in (*plan.forget, *plan.delete):
            self._write()
            self.ended["failed"] += is_tracked(pod) and is_active(pod)
            self._delete(pod)
        for pod in plan.create:
            self._write()
            self._create(pod)
        self._write_status(plan.status)
        self.backoff = plan.backoff
        for pod in plan.remove_finalizer:
            self._write()
            self._untrack(pod)
        status = count_pods(plan.status, [uid for uid, pod in self.pods.items() if is_tracked(pod)])
        finished = plan.outcome and finish_job(status, plan.outcome, self.now)
        self._write_status(finished[0] if finished else status)

    def _write(self):
        if self._writes_left is not None:
            self._writes_left -= 1
            if self._writes_left < 0:
                raise Crash

    def _write_status(self, status):
        if status == self.job["status"]:
            return
        self._write()
        before = self.job["status"]
        for name in ("succeeded", "failed"):
            assert status.get(name, 0) >= before.get(name, 0)
        self.job["status"] = status

    def _create(self, pod):
        uid = next(self._uids)
        metadata = {"name": f"work-{uid}", "uid": uid, "creationTimestamp": text_of(self.now)}
        self.pods[uid] = pod | {
            "metadata": pod["metadata"] | metadata,
            "status": {"phase": "Running"},
        }

    def _delete(self, pod):
        pod["metadata"]["deletionTimestamp"] = text_of(self.now)
        self._remove_if_gone(pod)

    def _untrack(self, pod):
        if is_tracked(pod):
            pod["metadata"]["finalizers"].remove(TRACKING_FINALIZER)
        self._remove_if_gone(pod)

    def _remove_if_gone(self, pod):
        """Remove a pod that is deleted and has ended; a kubelet ends it at once."""
        if "deletionTimestamp" in pod["metadata"]:
            if pod["status"]["phase"] == "Running":
                pod["status"]["phase"] = "Failed"
            if not is_tracked(pod):
                self.pods.pop(pod["metadata"]["uid"], None)

    # What happens to the pods.

    def active(self):
        return [pod for pod in self.pods.values() if is_active(pod)]

    def end(self, pod, name):
        terminated = {"exitCode": int(name == "failed"), "finishedAt": text_of(self.now)}
        statuses = [{"name": "main", "state": {"terminated": terminated}}]
        pod["status"] = {"phase": name.title(), "containerStatuses": statuses}
        self.ended[name] += 1

    def evict(self, pod):
        self.ended["failed"] += 1
        self._delete(pod)

    # The rules.

    def _check(self):
        spec, status = self.job["spec"], self.job["status"]
        uncounted = status.get("uncountedTerminatedPods", {})
        for name in ("succeeded", "failed"):
            assert status.get(name, 0) + len(uncounted.get(name, ())) <= self.ended[name]
        if is_job_finished(self.job):
            assert not uncounted
            return
        indexes = [
            pod["metadata"]["annotations"][INDEX] for pod in self.active() if self.is_indexed
        ]
        assert len(set(indexes)) == len(indexes)
        assert not set(map(int, indexes)) & self.completed_indexes()
        assert self._writes_left == -1 or len(self.active()) <= spec["parallelism"]

    @property
    def is_indexed(self):
        return self.job["spec"].get("completionMode") == "Indexed"

    def completed_indexes(self):
        text = self.job["status"].get("completedIndexes", "")
        return set(parse_indexes(text, self.job["spec"]["completions"]))

    def succeed(self):
        """Let all pods succeed until the Job has ended."""
        for _ in range(30):
            for pod in self.active():
                self.end(pod, "succeeded")
            self.reconcile()
            self.now += 1000
        self.reconcile()


def is_active(pod):
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["succeeded", "failed", "evict"]), st.integers(0, 4)),
    st.tuples(st.just("parallelism"), st.integers(0, 4)),
    st.tuples(st.just("suspend"), st.integers(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 8)),
    st.tuples(st.just("wait"), st.sampled_from([1, 10, 600])),
)


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@settings(max_examples=60, deadline=None)
@given(completions=st.integers(1, 5), actions=st.lists(ACTIONS, max_size=25))
def test_each_end_counts_once(mode, completions, actions):
    """There are never more pods than `parallelism`, never two for an index, counts never fall or
    exceed what happened, and in the end they are exact and no pod keeps its finalizer."""
    world = World(completions=completions, completionMode=mode)
    for action, number in actions:
        active, spec = world.active(), world.job["spec"]
        if action == "parallelism":
            spec["parallelism"] = number
        elif action == "suspend":
            spec["suspend"] = bool(number)
        elif action == "wait":
            world.now += number
        elif action == "evict" and active:
            world.evict(active[number % len(active)])
        elif action in ("succeeded", "failed") and active:
            world.end(active[number % len(active)], action)
        world.reconcile(number if action == "crash" else None)
    world.job["spec"] |= {"parallelism": 2, "suspend": False}
    world.succeed()
    status = world.job["status"]
    assert finished_condition(world.job) == "Complete"
    assert status["succeeded"] == completions
    assert status.get("failed", 0) == world.ended["failed"]
    assert not any(map(is_tracked, world.pods.values()))
    if world.is_indexed:
        assert world.completed_indexes() == set(range(completions))
