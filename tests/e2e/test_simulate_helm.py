"""A real helm waits for the workloads of a chart that a simulating server runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import generations_of
from tests.e2e.programs import Server, kubectls, run, start, stop

CHART = Path(__file__).parent / "shop_chart"
"""A chart with all kinds of workloads, with volumes, a budget, an autoscaler and hooks."""
SERVERS = ("agent", "api", "cache", "db", "web")
"""The workloads whose pods are replaced when their image changes."""
NODES = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("simulate-helm")
    running = start(folder, "--simulate", f"--simulate-nodes={NODES}")
    yield running
    stop(running)


@pytest.fixture(params=generations_of("helm"))
def release(request: pytest.FixtureRequest, server: Server) -> Iterator[Release]:
    yield Release(request.param, server)
    kubectl = kubectls()[0]
    run(kubectl, server, "delete", "pvc,jobs,pods", "--all", "--timeout=60s")


class Release:
    """The release `shop` of the chart."""

    def __init__(self, program: Path, server: Server) -> None:
        self.program = program
        self.server = server

    def helm(self, *arguments: str, timeout: str = "60s", fails: bool = False) -> str:
        waiting = ("--wait", "--timeout", timeout)
        return run(self.program, self.server, *arguments, *waiting, fails=fails)

    def test(self, *, fails: bool = False) -> str:
        """Run `helm test`, whose pod ends with the exit code that the values say."""
        return run(self.program, self.server, "test", "shop", "--timeout", "60s", fails=fails)

    def objects(self, resource: str) -> list[dict[str, Any]]:
        listed = json.loads(run(kubectls()[0], self.server, "get", resource, "-o=json"))
        return [each for each in listed["items"] if "deletionTimestamp" not in each["metadata"]]

    def ready_pods(self) -> Counter[tuple[str, str]]:
        """The number of pods that are ready, keyed by the label `app` and the image."""
        return Counter(
            (pod["metadata"]["labels"]["app"], pod["spec"]["containers"][0]["image"])
            for pod in self.objects("pods")
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        )

    def complete_jobs(self) -> set[str]:
        return {
            job["metadata"]["name"]
            for job in self.objects("jobs")
            for condition in job["status"].get("conditions", ())
            if condition["type"] == "Complete" and condition["status"] == "True"
        }


def servers(image: str, replicas: int) -> dict[tuple[str, str], int]:
    """What `ready_pods` returns for the SERVERS with this image."""
    counts = dict.fromkeys(SERVERS, replicas) | {"agent": NODES, "api": 2}
    return {(name, image): count for name, count in counts.items()}


@pytest.mark.slow
def test_helm_waits_for_workloads(release: Release) -> None:
    """Install, upgrade and rollback run their hooks and return when all pods of the revision are
    ready, its claims are bound and its Jobs are complete; uninstall returns when all are gone."""
    release.helm("install", "shop", str(CHART), "--wait-for-jobs")
    legacy = ("legacy", "shop:1")  # a ReplicationController keeps pods with the old image
    assert release.ready_pods() == servers("shop:1", 2) | {legacy: 2}
    assert release.complete_jobs() == {"migrate", "import-1"}  # helm has deleted `announce`
    claims = release.objects("pvc")
    assert sorted(each["metadata"]["name"] for each in claims) == [
        "data-db-0",
        "data-db-1",
        "uploads",
    ]
    assert {each["status"]["phase"] for each in claims} == {"Bound"}
    (autoscaler,) = release.objects("hpa")
    assert autoscaler["status"]["desiredReplicas"] == 2
    assert "Succeeded" in release.test()

    change = ("--set", "image=shop:2,replicas=3,smokeExitCode=1")
    release.helm("upgrade", "shop", str(CHART), "--wait-for-jobs", *change)
    newer = release.ready_pods()
    assert newer == servers("shop:2", 3) | {legacy: 2, ("legacy", "shop:2"): 1}
    assert release.complete_jobs() == {"migrate", "import-2"}
    release.test(fails=True)

    release.helm("rollback", "shop", "1", "--wait-for-jobs")
    assert release.ready_pods() == servers("shop:1", 2) | {legacy: 2}
    assert release.complete_jobs() == {"migrate", "import-1"}

    release.helm("uninstall", "shop")
    assert not release.ready_pods()
    assert release.complete_jobs() == {"migrate"}  # helm keeps the Job of a hook


@pytest.mark.slow
def test_helm_reports_a_release_that_does_not_get_ready(release: Release) -> None:
    """An upgrade to an image that cannot be pulled fails in time, and a rollback mends it, except
    for the ordered pods of a StatefulSet, which Kubernetes leaves to the user."""
    release.helm("install", "shop", str(CHART), "--set", "podManagementPolicy=Parallel")
    absent = ("--set", "image=shop:absent,podManagementPolicy=Parallel", "--no-hooks")
    images = "simulation.kapiserver.dev/missing-images"
    kubectl = kubectls()[0]
    run(kubectl, release.server, "annotate", "nodes", "--all", f"{images}=shop:absent")
    release.helm("upgrade", "shop", str(CHART), *absent, timeout="3s", fails=True)
    ready = release.ready_pods()
    assert ready["web", "shop:1"] == 2  # a rolling update keeps what works
    assert not any(image == "shop:absent" for _, image in ready)
    release.helm("rollback", "shop", "1", "--wait-for-jobs")
    assert release.ready_pods() == servers("shop:1", 2) | {("legacy", "shop:1"): 2}
    run(kubectl, release.server, "annotate", "nodes", "--all", f"{images}-")
    release.helm("uninstall", "shop")
