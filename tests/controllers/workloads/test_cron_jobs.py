"""CronJobs on a server whose clock the test moves. It stands at 2023-11-14 22:13:20."""

import asyncio

import pytest

from kapiserver.controllers.workloads.cron_job.controller import CronJobController
from kapiserver.controllers.workloads.cron_job.plan import plan_cron_job
from tests.controllers.workloads.workloads import running
from tests.times import text_of

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
CREATED = 1_700_000_000
FIRST = 1_700_000_040
"""The first full minute after the creation."""
NAME = f"tick-{FIRST // 60}"
SECOND_NAME = f"tick-{FIRST // 60 + 1}"


def cron_job(schedule="* * * * *", **spec):
    template = {"metadata": {"labels": {"app": "tick"}}, "spec": {"template": POD}}
    return {
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


class CronJobs:
    """One CronJob and its Jobs, whose ends the test plays."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.cron_jobs = cluster.objects("cronjobs", "batch/v1")
        self.jobs = cluster.objects("jobs", "batch/v1")

    async def create(self, schedule="* * * * *", **spec):
        await self.cron_jobs.create(cron_job(schedule, **spec))
        await self.cluster.settle()

    async def names(self):
        return sorted(each["metadata"]["name"] for each in await self.items())

    async def items(self):
        return await self.cluster.items("jobs", "batch/v1")

    async def status(self):
        return (await self.cron_jobs.get("tick")).get("status") or {}

    async def active(self):
        return [each["name"] for each in (await self.status()).get("active", ())]

    async def finish(self, name, condition="Complete"):
        now = text_of(self.cluster.clock.now())
        early = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
        status = {"startTime": now}
        if condition == "Complete":
            status["completionTime"] = now
        status["conditions"] = [
            {"type": each, "status": "True", "lastTransitionTime": now}
            for each in (early, condition)
        ]
        await self.jobs.patch(name, {"status": status}, subresource="status")
        await self.cluster.settle()

    async def events(self):
        return [(reason, message) for _, reason, message in await self.cluster.events()]


def on_cron_jobs(test):
    async def run():
        async with running(CronJobController) as cluster:
            await test(CronJobs(cluster))

    asyncio.run(run())


def test_a_job_starts_at_its_minute():
    async def run(jobs):
        await jobs.create()
        await jobs.cluster.advance(39)
        assert await jobs.names() == []
        await jobs.cluster.advance(1)
        (job,) = await jobs.items()
        metadata = job["metadata"]
        assert metadata["name"] == NAME
        assert metadata["labels"]["app"] == "tick"
        assert metadata["annotations"] == {
            "batch.kubernetes.io/cronjob-scheduled-timestamp": "2023-11-14T22:14:00Z"
        }
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
        status = await jobs.status()
        assert status["lastScheduleTime"] == "2023-11-14T22:14:00Z"
        (active,) = status["active"]
        assert (active["name"], active["uid"]) == (NAME, metadata["uid"])
        assert await jobs.events() == [("SuccessfulCreate", f"Created job {NAME}")]
        await jobs.cluster.advance(60)
        assert await jobs.active() == [NAME, SECOND_NAME]

    on_cron_jobs(run)


def test_a_job_completes():
    async def run(jobs):
        await jobs.create()
        await jobs.cluster.advance(40)
        await jobs.cluster.advance(5)
        await jobs.finish(NAME)
        assert await jobs.active() == []
        assert (await jobs.status())["lastSuccessfulTime"] == "2023-11-14T22:14:05Z"
        message = f"Saw completed job: {NAME}, condition: Complete"
        assert ("SawCompletedJob", message) in await jobs.events()

    on_cron_jobs(run)


def test_histories_are_limited():
    async def run(jobs):
        await jobs.create(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0)
        names = []
        for number, condition in enumerate(["Complete", "Failed", "Complete", "Complete"]):
            await jobs.cluster.advance(60)
            names.append(f"tick-{FIRST // 60 + number}")
            await jobs.finish(names[-1], condition)
        assert await jobs.names() == names[2:]
        events = await jobs.events()
        assert ("SuccessfulDelete", f"Deleted job {names[0]}") in events
        assert ("SuccessfulDelete", f"Deleted job {names[1]}") in events
        assert await jobs.active() == []

    on_cron_jobs(run)


@pytest.mark.parametrize(
    ("policy", "names", "event"),
    [
        ("Allow", [NAME, SECOND_NAME], ("SuccessfulCreate", f"Created job {SECOND_NAME}")),
        (
            *("Forbid", [NAME]),
            (
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is"
                " Forbid",
            ),
        ),
        ("Replace", [SECOND_NAME], ("SuccessfulDelete", f"Deleted job {NAME}")),
    ],
)
def test_concurrency(policy, names, event):
    async def run(jobs):
        await jobs.create(concurrencyPolicy=policy)
        await jobs.cluster.advance(40)
        await jobs.cluster.advance(60)
        assert await jobs.names() == names
        assert await jobs.active() == names
        assert event in await jobs.events()

    on_cron_jobs(run)


def test_a_forbidden_start_happens_when_the_job_before_has_ended():
    async def run(jobs):
        await jobs.create(concurrencyPolicy="Forbid")
        await jobs.cluster.advance(40)
        await jobs.cluster.advance(65)
        await jobs.finish(NAME)
        assert await jobs.active() == [SECOND_NAME]

    on_cron_jobs(run)


def test_suspend_and_resume():
    """Of the starts that a suspended CronJob has missed, the last one happens late."""

    async def run(jobs):
        await jobs.create(suspend=True)
        await jobs.cluster.advance(40 + 600)
        assert await jobs.names() == []
        await jobs.cron_jobs.patch("tick", {"spec": {"suspend": False}})
        await jobs.cluster.settle()
        assert await jobs.names() == [f"tick-{FIRST // 60 + 10}"]

    on_cron_jobs(run)


def test_too_many_missed_starts():
    async def run(jobs):
        await jobs.create(suspend=True)
        await jobs.cluster.advance(40 + 6000)
        await jobs.cron_jobs.patch("tick", {"spec": {"suspend": False}})
        await jobs.cluster.settle()
        assert await jobs.names() == [f"tick-{FIRST // 60 + 100}"]
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check "
            "clock skew"
        )
        assert ("TooManyMissedTimes", message) in await jobs.events()

    on_cron_jobs(run)


def test_the_deadline_of_a_start():
    async def run(jobs):
        await jobs.create(suspend=True, startingDeadlineSeconds=30)
        await jobs.cluster.advance(40 + 45)
        await jobs.cron_jobs.patch("tick", {"spec": {"suspend": False}})
        await jobs.cluster.settle()
        assert await jobs.names() == []
        await jobs.cluster.advance(15)
        assert await jobs.names() == [SECOND_NAME]

    on_cron_jobs(run)


def test_a_changed_schedule():
    """A new schedule counts from its next start on."""

    async def run(jobs):
        await jobs.create("0 * * * *")
        await jobs.cluster.advance(600)
        await jobs.cron_jobs.patch("tick", {"spec": {"schedule": "*/5 * * * *"}})
        await jobs.cluster.settle()
        assert await jobs.names() == []
        await jobs.cluster.advance(100)  # 22:25:00
        assert await jobs.names() == [f"tick-{(CREATED + 700) // 60}"]

    on_cron_jobs(run)


def test_time_zones():
    async def run(jobs):
        await jobs.create("20 23 * * *", timeZone="Europe/Rome")
        await jobs.cluster.advance(399)
        assert await jobs.names() == []
        await jobs.cluster.advance(1)
        (job,) = await jobs.items()
        (text,) = job["metadata"]["annotations"].values()
        assert text == "2023-11-14T23:20:00+01:00"

    on_cron_jobs(run)


def test_jobs_of_others():
    """A Job that went missing is forgotten, and one that somebody else created is reported."""

    async def run(jobs):
        await jobs.create(concurrencyPolicy="Forbid")
        await jobs.cluster.advance(40)
        await jobs.jobs.delete(NAME, {"propagationPolicy": "Background"})
        await jobs.cluster.settle()
        assert await jobs.active() == []
        assert ("MissingJob", f"Active job went missing: {NAME}") in await jobs.events()
        uid = (await jobs.cron_jobs.get("tick"))["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": uid}
        metadata = {"name": "by-hand", "ownerReferences": [owner | {"controller": True}]}
        await jobs.jobs.create({"metadata": metadata, "spec": {"template": POD}})
        await jobs.cluster.settle()
        message = "Saw a job that the controller did not create or forgot: by-hand"
        assert ("UnexpectedJob", message) in await jobs.events()

    on_cron_jobs(run)


def test_a_name_that_is_taken():
    """The Job of somebody else with the name of a start prevents that start only."""

    async def run(jobs):
        await jobs.jobs.create({"metadata": {"name": NAME}, "spec": {"template": POD}})
        await jobs.create()
        await jobs.cluster.advance(40)
        assert await jobs.active() == []
        await jobs.cluster.advance(60)
        assert await jobs.active() == [SECOND_NAME]

    on_cron_jobs(run)


@pytest.mark.parametrize(
    ("spec", "event"),
    [
        (
            {"timeZone": "Nowhere"},
            ("UnknownTimeZone", 'invalid timeZone: "Nowhere": unknown time zone Nowhere'),
        ),
        (
            {"schedule": "oops"},
            (
                "UnparseableSchedule",
                'unparseable schedule: "oops" : expected exactly 5 fields, found 1: [oops]',
            ),
        ),
        (
            {"schedule": "0 0 31 2 *"},
            (
                "InvalidSchedule",
                "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than "
                "1 second",
            ),
        ),
        (
            {"schedule": "TZ=Asia/Tokyo 0 9 * * *"},
            (
                "UnsupportedSchedule",
                'CRON_TZ or TZ used in schedule "TZ=Asia/Tokyo 0 9 * * *" is not officially '
                "supported, see https://kubernetes.io/docs/concepts/workloads/controllers/"
                "cron-jobs/ for more details",
            ),
        ),
    ],
)
def test_schedules_with_problems(spec, event):
    """Validation refuses most of them; an older server may have stored them."""
    obj = cron_job(**spec)
    obj["metadata"]["creationTimestamp"] = text_of(CREATED)
    plan = plan_cron_job(obj, [], (), CREATED + 1)
    assert [(each.reason, each.message) for each in plan.events] == [event]
    assert plan.create is None
    if "Tokyo" in event[1]:
        assert plan.requeue_after == pytest.approx(6399)
