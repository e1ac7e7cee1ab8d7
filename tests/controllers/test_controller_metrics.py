"""What controllers count: names and labels are those of kube-controller-manager."""

from __future__ import annotations

import itertools

import pytest

from kapiserver.controllers.workloads.cron_job.controller import CronJobController
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.controller import (
    HorizontalPodAutoscalerController,
)
from kapiserver.controllers.workloads.job.controller import JobController
from kapiserver.controllers.workloads.job.job_metrics import creation_reason
from kapiserver.controllers.workloads.replica_set import ReplicaSetController
from tests.controllers.nodes.test_node_lifecycle import running as nodes_running
from tests.controllers.workloads.test_autoscalers import autoscale, autoscalers
from tests.controllers.workloads.test_jobs import INDEXED, Jobs, job
from tests.controllers.workloads.workloads import running

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def metrics_of(cluster):
    return cluster.server.metrics.controllers


def sums(histogram):
    """How many observations each set of labels has."""
    return {labels: sum(each.counts) for labels, each in histogram.values.items()}


async def test_job_that_completes():
    async with running(JobController) as cluster:
        jobs = Jobs(cluster)
        await jobs.create(completions=2, parallelism=1)
        for _ in range(2):
            (pod,) = await jobs.running()
            await jobs.end(pod)
        metrics = metrics_of(cluster).jobs
        assert metrics.finished.values == {("NonIndexed", "succeeded", "CompletionsReached"): 1}
        assert metrics.pods_finished.values == {("NonIndexed", "succeeded"): 2}
        assert metrics.pods_created.values == {("new", "succeeded"): 2}
        assert metrics.tracked_terminated_pods.values == {"add": 2, "delete": 2}
        observed = sums(metrics.sync_seconds)
        assert observed["NonIndexed", "success", "pods_created"] == 2
        assert {labels[:2] for labels in observed} == {("NonIndexed", "success")}
        await cluster.objects("jobs", "batch/v1").create(
            job(managedBy="example.com/queue") | {"metadata": {"name": "other"}}
        )
        await cluster.settle()
        assert metrics.external.values == {"example.com/queue": 1}


async def test_job_that_fails():
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    async with running(JobController) as cluster:
        jobs = Jobs(cluster)
        await jobs.create(
            completions=2, parallelism=2, backoffLimitPerIndex=1, **INDEXED,
            podFailurePolicy={"rules": [rule]},
        )  # fmt: skip
        first, second = await jobs.running()
        await jobs.end(first)
        await jobs.end(second, code=42)
        metrics = metrics_of(cluster).jobs
        assert metrics.finished.values == {("Indexed", "failed", "PodFailurePolicy"): 1}
        assert metrics.policy_actions.values == {"FailJob": 1}
        assert metrics.pods_finished.values == {
            ("Indexed", "succeeded"): 1, ("Indexed", "failed"): 1,
        }  # fmt: skip
        assert metrics.indexes_finished.values["succeeded", "perIndex"] == 1


@pytest.mark.parametrize(
    ("policy", "status", "reason"),
    [
        (None, {}, "new"),
        (None, {"terminating": 1}, "recreate_terminating_or_failed"),
        (None, {"uncountedTerminatedPods": {"failed": ["1"]}}, "recreate_terminating_or_failed"),
        ("Failed", {"failed": 1}, "recreate_failed"),
        ("Failed", {"terminating": 1}, "recreate_terminating_or_failed"),
    ],
)
def test_reason_of_new_pods(policy, status, reason):
    assert creation_reason(job(podReplacementPolicy=policy), status) == reason


async def test_delay_of_a_cron_job():
    async with running(CronJobController) as cluster:
        start = cluster.clock.now()
        template = {"spec": job()["spec"]}
        spec = {"schedule": "* * * * *", "jobTemplate": template}
        client = cluster.objects("cronjobs", "batch/v1")
        await client.create({"metadata": {"name": "each-minute"}, "spec": spec})
        await cluster.settle()
        await cluster.advance(60 - start % 60 + 10)
        (observations,) = metrics_of(cluster).cron_job_skew.values.values()
        assert (sum(observations.counts), round(observations.total)) == (1, 10)


async def test_autoscalers():
    async with running(
        HorizontalPodAutoscalerController, "deployment-controller", "replicaset-controller"
    ) as cluster:
        labels = {"app": "web"}
        container = {"name": "app", "image": "nginx"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await cluster.objects("deployments").create({"metadata": {"name": "web"}, "spec": spec})
        await autoscale(cluster, minReplicas=3)
        metrics = metrics_of(cluster).autoscalers
        assert metrics.autoscalers.values == {"": 1}
        assert metrics.desired_replicas.values == {("shop", "web"): 3}
        assert sums(metrics.reconcile_seconds) == {("scale_up", "none"): 1}
        await autoscalers(cluster).delete("web")
        await cluster.settle()
        assert metrics.autoscalers.values == {"": 0}
        assert metrics.desired_replicas.values == {}
        absent = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "absent"}
        await autoscale(cluster, "lost", absent)
        assert sums(metrics.reconcile_seconds)["none", "internal"] == 1


async def test_lost_nodes():
    """Two of three nodes of a zone are lost; the pod of one is evicted."""
    zone = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    async with nodes_running() as cluster:
        for name in ("one", "two", "three"):
            await cluster.create_node(name, **zone)
        await cluster.create_pod("web", "two")
        for _ in range(7):
            cluster.clock.advance(10)
            await cluster.report("one")
        metrics = metrics_of(cluster).nodes
        (label,) = metrics.zone_size.values
        assert metrics.zone_size.values == {label: 3}
        assert metrics.unhealthy_nodes.values == {label: 2}
        assert round(metrics.zone_health.values[label]) == 33
        assert sums(metrics.health_seconds)[""] >= 3
        for _ in range(40):
            cluster.clock.advance(10)
            await cluster.report("one")
        assert metrics.evictions.values == {label: 2}
        assert await cluster.deleted() == {"web"}
        assert metrics.evicted_pods.values == {"": 1}
        assert sums(metrics.eviction_seconds) == {"": 1}


async def test_reconcile_that_fails():
    """It is counted and retried with exponential back-off, until its cause is gone."""
    async with running(ReplicaSetController) as cluster:
        labels = {"app": "web"}
        pod = {"serviceAccountName": "absent", "containers": [{"name": "app", "image": "nginx"}]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await cluster.objects("replicasets").create({"metadata": {"name": "web"}, "spec": spec})
        await cluster.settle()
        retries = cluster.server.metrics.workqueues.retries.values
        steps = []
        for _ in range(4):
            before, taken = retries["ReplicaSetController"], 0
            while retries["ReplicaSetController"] == before:
                taken += 1
                await cluster.advance(0.001)
            steps.append(taken)
        assert all(abs(later - 2 * sooner) <= 2 for sooner, later in itertools.pairwise(steps))
        assert any(reason == "FailedCreate" for _, reason, _ in await cluster.events())
        await cluster.objects("serviceaccounts", "v1").create({"metadata": {"name": "absent"}})
        await cluster.advance(1)
        assert len(await cluster.items("pods", "v1")) == 1
