"""Jobs on a server: pods are created, counted once and released; Jobs succeed and fail."""

from __future__ import annotations

import asyncio
import random

import pytest

from kapiserver.controllers.workloads.job.controller import JobController
from kapiserver.controllers.workloads.job.indexes import indexes_text, parse_indexes
from tests.controllers.workloads.workloads import running
from tests.times import text_of

INDEX = "batch.kubernetes.io/job-completion-index"
TEMPLATE = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
}
INDEXED = {"completionMode": "Indexed"}


def job(**spec):
    return {"metadata": {"name": "work"}, "spec": {"template": TEMPLATE, **spec}}


def by_creation(pod):
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


class Jobs:
    """One Job and its pods, whose ends the test plays."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.jobs = cluster.objects("jobs", "batch/v1")

    async def create(self, **spec):
        await self.jobs.create(job(**spec))
        await self.cluster.settle()

    async def job(self):
        return await self.jobs.get("work")

    async def status(self, *names):
        status = (await self.job())["status"]
        return tuple(status.get(name) for name in names)

    async def pods(self):
        pods = await self.cluster.items("pods", "v1")
        return sorted(pods, key=by_creation)

    async def running(self):
        return [pod for pod in await self.pods() if pod["status"]["phase"] == "Pending"]

    async def end(self, pod, code=0):
        """End the only container of a pod with an exit code."""
        name = pod["metadata"]["name"]
        terminated = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "finishedAt": text_of(self.cluster.clock.now()),
        }
        container = {"name": "main", "image": "busybox", "imageID": "", "ready": False}
        container |= {"restartCount": 0, "state": {"terminated": terminated}}
        phase = "Succeeded" if code == 0 else "Failed"
        status = {"phase": phase, "containerStatuses": [container]}
        await self.cluster.pods.patch(name, {"status": status}, subresource="status")
        await self.cluster.settle()

    async def condition(self, name):
        for each in (await self.job())["status"].get("conditions", ()):
            if each["type"] == name:
                return each["status"], each["reason"], each["message"]
        return None


def on_jobs(test):
    async def run():
        async with running(JobController) as cluster:
            await test(Jobs(cluster))

    asyncio.run(run())


def test_a_job_runs_its_pods_and_completes():
    async def run(jobs):
        await jobs.create(completions=3, parallelism=2)
        first, _second = await jobs.running()
        assert first["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        assert first["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"
        assert await jobs.status("active", "ready", "terminating") == (2, 0, 0)
        await jobs.end(first)
        assert await jobs.status("active", "succeeded") == (2, 1)
        for pod in await jobs.running():
            await jobs.end(pod)
        assert await jobs.status("active", "succeeded", "failed") == (None, 3, None)
        assert await jobs.condition("SuccessCriteriaMet") == (
            "True",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
        assert (await jobs.condition("Complete"))[0] == "True"
        status = (await jobs.job())["status"]
        assert status["completionTime"]
        assert not status.get("uncountedTerminatedPods")
        pods = await jobs.pods()
        assert len(pods) == 3
        assert not any(pod["metadata"].get("finalizers") for pod in pods)
        events = await jobs.cluster.events()
        assert ("work", "Completed", "Job completed") in events
        assert sum(reason == "SuccessfulCreate" for _, reason, _ in events) == 3

    on_jobs(run)


def test_failed_pods_are_replaced_with_backoff_until_the_limit():
    async def run(jobs):
        await jobs.create(backoffLimit=2)
        for number, wait in ((1, 10), (2, 20)):
            (pod,) = await jobs.running()
            await jobs.end(pod, 1)
            assert await jobs.status("failed") == (number,)
            await jobs.cluster.advance(wait - 1)
            assert await jobs.running() == []
            await jobs.cluster.advance(1)
        (pod,) = await jobs.running()
        await jobs.end(pod, 1)
        assert await jobs.condition("FailureTarget") == (
            "True",
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert (await jobs.condition("Failed"))[1] == "BackoffLimitExceeded"
        assert await jobs.status("failed", "active") == (3, None)
        assert len(await jobs.pods()) == 3

    on_jobs(run)


def test_deadline():
    async def run(jobs):
        await jobs.create(activeDeadlineSeconds=30, parallelism=2)
        await jobs.cluster.advance(29)
        assert await jobs.condition("FailureTarget") is None
        await jobs.cluster.advance(1)
        assert (await jobs.condition("Failed"))[1:] == (
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
        assert await jobs.pods() == []

    on_jobs(run)


def test_suspend_and_resume():
    async def run(jobs):
        await jobs.create(parallelism=2, suspend=True)
        assert await jobs.pods() == []
        assert await jobs.condition("Suspended") == ("True", "JobSuspended", "Job suspended")
        await jobs.jobs.patch("work", {"spec": {"suspend": False}})
        await jobs.cluster.settle()
        assert len(await jobs.running()) == 2
        assert await jobs.condition("Suspended") == ("False", "JobResumed", "Job resumed")
        assert await jobs.status("startTime") != (None,)
        await jobs.jobs.patch("work", {"spec": {"suspend": True}})
        await jobs.cluster.settle()
        assert await jobs.running() == []
        assert await jobs.status("active", "failed") == (None, None)

    on_jobs(run)


def test_indexed_jobs():
    async def run(jobs):
        await jobs.create(completions=4, parallelism=4, **INDEXED)
        pods = {pod["metadata"]["annotations"][INDEX]: pod for pod in await jobs.running()}
        assert sorted(pods) == ["0", "1", "2", "3"]
        pod = pods["2"]
        assert pod["metadata"]["labels"][INDEX] == "2"
        assert pod["metadata"]["generateName"] == "work-2-"
        assert pod["spec"]["hostname"] == "work-2"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        for index in "023":
            await jobs.end(pods[index])
        assert await jobs.status("completedIndexes", "succeeded") == ("0,2,3", 3)
        await jobs.end(pods["1"])
        assert await jobs.status("completedIndexes", "succeeded") == ("0-3", 4)
        assert (await jobs.condition("Complete"))[0] == "True"

    on_jobs(run)


def test_limit_per_index():
    async def run(jobs):
        spec = {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1}
        await jobs.create(**spec, **INDEXED)
        pods = {pod["metadata"]["annotations"][INDEX]: pod for pod in await jobs.running()}
        await jobs.end(pods["0"], 1)
        assert await jobs.status("failedIndexes") == ("",)
        await jobs.cluster.advance(10)
        (again,) = [
            pod for pod in await jobs.running() if pod["metadata"]["annotations"][INDEX] == "0"
        ]
        counts = again["metadata"]["annotations"]
        assert counts["batch.kubernetes.io/job-index-failure-count"] == "1"
        await jobs.end(again, 1)
        assert await jobs.status("failedIndexes") == ("0",)
        await jobs.end(pods["1"])
        assert (await jobs.condition("Failed"))[1:] == ("FailedIndexes", "Job has failed indexes")
        assert await jobs.status("succeeded", "failed") == (1, 2)

    on_jobs(run)


@pytest.mark.parametrize(
    ("code", "reason"), [(42, "PodFailurePolicy"), (43, None), (1, "BackoffLimitExceeded")]
)
def test_failure_policy(code, reason):
    async def run(jobs):
        def rule(action, value):
            return {"action": action, "onExitCodes": {"operator": "In", "values": [value]}}

        rules = [rule("FailJob", 42), rule("Ignore", 43)]
        await jobs.create(backoffLimit=0, podFailurePolicy={"rules": rules})
        (pod,) = await jobs.running()
        await jobs.end(pod, code)
        condition = await jobs.condition("Failed")
        if reason is None:
            assert condition is None
            assert await jobs.status("failed") == (None,)
            return
        assert condition[1] == reason
        if code == 42:
            name = pod["metadata"]["name"]
            assert condition[2] == (
                f"Container main for pod shop/{name} failed with exit code 42 matching FailJob "
                "rule at index 0"
            )

    on_jobs(run)


def test_success_policy():
    async def run(jobs):
        policy = {"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]}
        await jobs.create(completions=5, parallelism=5, successPolicy=policy, **INDEXED)
        pods = {pod["metadata"]["annotations"][INDEX]: pod for pod in await jobs.running()}
        await jobs.end(pods["4"])
        assert await jobs.condition("SuccessCriteriaMet") is None
        await jobs.end(pods["0"])
        await jobs.end(pods["2"])
        assert await jobs.condition("Complete") == (
            "True",
            "SuccessPolicy",
            "Matched rules at index 0",
        )
        assert await jobs.status("succeeded", "failed", "completedIndexes") == (3, None, "0,2,4")
        assert await jobs.running() == []

    on_jobs(run)


def test_work_queues_end_with_their_last_pod():
    """Without completions, no pod is created after the first success."""

    async def run(jobs):
        await jobs.jobs.create(job(parallelism=3))
        await jobs.cluster.settle()
        first, second, third = await jobs.running()
        await jobs.end(first)
        await jobs.end(second, 1)
        assert len(await jobs.running()) == 1
        assert await jobs.condition("Complete") is None
        await jobs.end(third)
        assert (await jobs.condition("Complete"))[0] == "True"

    on_jobs(run)


def test_pods_of_a_deleted_job_lose_their_finalizer():
    async def run(jobs):
        await jobs.create(parallelism=2, completions=2)
        await jobs.jobs.delete("work", {"propagationPolicy": "Background"})
        await jobs.cluster.settle()
        assert not any(pod["metadata"].get("finalizers") for pod in await jobs.pods())

    on_jobs(run)


def test_fewer_completions_and_less_parallelism_stop_pods():
    async def run(jobs):
        await jobs.create(parallelism=4, completions=4)
        await jobs.jobs.patch("work", {"spec": {"parallelism": 1}})
        await jobs.cluster.settle()
        assert len(await jobs.running()) == 1
        assert await jobs.status("active", "failed") == (1, None)

    on_jobs(run)


def test_a_job_managed_by_others_is_left_alone():
    async def run(jobs):
        await jobs.create(managedBy="x.dev/mine")
        assert await jobs.pods() == []

    on_jobs(run)


@pytest.mark.parametrize("seed", range(6))
def test_every_end_is_counted_once(seed):
    """Pods end in any order and are deleted by others; each counts exactly once."""

    async def run(jobs):
        chance = random.Random(seed)
        await jobs.create(completions=6, parallelism=3, backoffLimit=100)
        succeeded = failed = 0
        for _ in range(60):
            running = await jobs.running()
            assert len(running) <= 3
            if not running:
                if await jobs.condition("Complete"):
                    break
                await jobs.cluster.advance(600)
                continue
            pod = chance.choice(running)
            code = chance.choice((0, 0, 1))
            await jobs.end(pod, code)
            succeeded, failed = succeeded + (code == 0), failed + (code != 0)
            counts = await jobs.status("succeeded", "failed")
            assert tuple(each or 0 for each in counts) == (succeeded, failed)
        assert succeeded == 6

    on_jobs(run)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((0,), "0"), ((0, 1), "0,1"), ((0, 1, 2, 5), "0-2,5"), ((3, 4, 7, 8, 9), "3,4,7-9")],
)
def test_texts_of_indexes(indexes, text):
    assert indexes_text(indexes) == text
    assert parse_indexes(text, 100) == frozenset(indexes)


@pytest.mark.parametrize("text", ["x", "1-", "-2", "a-b,5", "5,,5-5", "5-99999999999999999999,5"])
def test_damaged_texts_of_indexes(text):
    assert parse_indexes(text, 6) <= {5}
