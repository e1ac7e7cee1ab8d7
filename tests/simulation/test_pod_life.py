"""The lives of simulated pods, as a kubelet reports them."""

from __future__ import annotations

import itertools

import pytest

from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.fate import unreadable_annotations
from kapiserver.simulation.pod_life import next_step
from tests.simulation.pods import HOST, START, Lived, pod_of
from tests.times import text_of

SIDECAR = {"name": "proxy", "restartPolicy": "Always"}
FATES = {
    "server": (pod_of(), 3600, "Running", {"app": "running ready"}),
    "job": (
        pod_of(owner="Job", policy="Never"), 1, "Succeeded", {"app": "terminated Completed 0"},
    ),
    "bare pod without restarts": (
        pod_of(policy="Never"), 3600, "Running", {"app": "running ready"},
    ),
    "job before its end": (
        pod_of(owner="Job", policy="Never"), 0.5, "Running", {"app": "running ready"},
    ),
    "exit code": (
        pod_of(annotations={"exit-code": "3"}, policy="Never"),
        1, "Failed", {"app": "terminated Error 3"},
    ),
    "exit code of one container": (
        pod_of("app", "log", annotations={"exit-code.log": "3"}, policy="Never"),
        1, "Running", {"app": "running ready", "log": "terminated Error 3"},
    ),
    "success without restart": (
        pod_of(annotations={"run-seconds": "60"}, policy="OnFailure"),
        60, "Succeeded", {"app": "terminated Completed 0"},
    ),
    "out of memory": (
        pod_of(annotations={"oom": "true"}, policy="Never"),
        1, "Failed", {"app": "terminated OOMKilled 137"},
    ),
    "first restart at once": (
        pod_of(annotations={"exit-code": "1"}), 1, "Running", {"app": "running restarts=1 ready"},
    ),
    "crash loop": (
        pod_of(annotations={"exit-code": "1"}),
        2, "Running", {"app": "waiting CrashLoopBackOff restarts=1"},
    ),
    "end of the back-off": (
        pod_of(annotations={"exit-code": "1"}), 12, "Running", {"app": "running restarts=2 ready"},
    ),
    "doubled back-off": (
        pod_of(annotations={"exit-code": "1"}),
        32, "Running", {"app": "waiting CrashLoopBackOff restarts=2"},
    ),
    "failed job is tried again": (
        pod_of(owner="Job", policy="OnFailure", annotations={"exit-code": "1"}),
        1, "Running", {"app": "running restarts=1 ready"},
    ),
    "not ready": (pod_of(annotations={"ready": "false"}), 60, "Running", {"app": "running"}),
    "slow start": (
        pod_of(annotations={"start-seconds": "20"}),
        19, "Pending", {"app": "waiting ContainerCreating"},
    ),
    "after a slow start": (
        pod_of(annotations={"start-seconds": "20"}), 20, "Running", {"app": "running ready"},
    ),
    "no image": (
        pod_of("app", "log", annotations={"image-pull-error.app": "not found"}),
        60, "Pending", {"app": "waiting ImagePullBackOff", "log": "running ready"},
    ),
    "init containers": (
        pod_of(init=("one", "two")), 0, "Running",
        {"one": "terminated Completed 0 ready", "two": "terminated Completed 0 ready",
         "app": "running ready"},
    ),
    "slow init container": (
        pod_of(init=("one", "two"), annotations={"run-seconds.one": "5"}), 4, "Pending",
        {"one": "running", "two": "waiting PodInitializing",
         "app": "waiting PodInitializing"},
    ),
    "failed init container": (
        pod_of(init=("one",), annotations={"exit-code.one": "1"}, policy="Never"), 0, "Failed",
        {"one": "terminated Error 1", "app": "waiting PodInitializing"},
    ),
    "restarted init container": (
        pod_of(init=("one",), annotations={"exit-code.one": "1"}), 0, "Pending",
        {"one": "waiting CrashLoopBackOff restarts=1", "app": "waiting PodInitializing"},
    ),
    "sidecar of a server": (
        pod_of(init=(SIDECAR,)), 0, "Running", {"proxy": "running ready", "app": "running ready"},
    ),
    "sidecar of a job": (
        pod_of(init=(SIDECAR,), owner="Job", policy="Never"), 1, "Succeeded",
        {"proxy": "terminated Completed 0", "app": "terminated Completed 0"},
    ),
    "sidecar with a startup probe": (
        pod_of(init=(SIDECAR | {"startupProbe": {"initialDelaySeconds": 7}},)), 6, "Pending",
        {"proxy": "running", "app": "waiting PodInitializing"},
    ),
    "sidecar crashes": (
        pod_of(init=(SIDECAR,), annotations={"exit-code.proxy": "1"}), 2, "Running",
        {"proxy": "waiting CrashLoopBackOff restarts=1", "app": "running ready"},
    ),
    "before readiness": (
        pod_of({"name": "app", "readinessProbe": {"initialDelaySeconds": 5}}),
        4, "Running", {"app": "running"},
    ),
    "ready after both probes": (
        pod_of({"name": "app", "startupProbe": {"initialDelaySeconds": 5},
                "readinessProbe": {"successThreshold": 3, "periodSeconds": 2}}),
        9, "Running", {"app": "running ready"},
    ),
    "deadline": (
        pod_of(activeDeadlineSeconds=5), 5, "Failed", {"app": "terminated Completed 0"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FATES)
def test_fates(name):
    """After so many seconds the pod and its containers are in these states."""
    pod, seconds, phase, states = FATES[name]
    lived = Lived(pod).run(seconds)
    assert (lived.phase, lived.states()) == (phase, states)


def test_status_of_a_kubelet():
    """The status has what a kubelet writes, in two writes."""
    lived = Lived(pod_of(policy="Always"))
    creating = next_step(lived.pod, HOST, START).status
    assert creating["phase"] == "Pending"
    assert creating["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    lived.run()
    status = lived.pod["status"]
    assert len(lived.written) == 2
    assert (status["podIP"], status["podIPs"]) == ("10.128.0.2", [{"ip": "10.128.0.2"}])
    assert (status["hostIP"], status["hostIPs"]) == ("172.18.0.2", [{"ip": "172.18.0.2"}])
    assert (status["startTime"], status["observedGeneration"]) == (text_of(START), 1)
    assert [each["type"] for each in status["conditions"]] == [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip
    assert {each["status"] for each in status["conditions"]} == {"True"}
    container = status["containerStatuses"][0]
    assert container["image"] == "docker.io/library/nginx:latest"
    assert container["imageID"].startswith("docker.io/library/nginx@sha256:")
    assert container["containerID"].startswith("containerd://")
    assert next_step(lived.pod, HOST, START + 9).status is None


def test_crash_loop():
    """Back-offs are 10 s, doubled up to 300 s; the last end and the restarts are in the status."""
    lived = Lived(pod_of(annotations={"exit-code": "1", "run-seconds": "0"}))
    restarts = []
    for _ in range(9):
        lived.run()
        restarts.append(int(lived.now) - START)
        lived.now += lived.settle()
    gaps = [after - before for before, after in itertools.pairwise(restarts)]
    assert gaps == [10, 20, 40, 80, 160, 300, 300, 300]
    status = lived.pod["status"]["containerStatuses"][0]
    assert status["state"]["waiting"]["message"] == (
        "back-off 5m0s restarting failed container=app pod=web-0_shop(1)"
    )
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert lived.condition("Ready")[1:] == (
        "ContainersNotReady", "containers with unready status: [app]",
    )  # fmt: skip


def test_long_run_ends_the_back_off():
    """A container that ran for more than ten minutes is started at once, and back-offs begin
    anew."""
    lived = Lived(pod_of(annotations={"exit-code": "1", "run-seconds": "0"})).run(300)
    lived.annotate("exit-code", "0").annotate("run-seconds", "601").run(300)
    began = lived.pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    lived.run(seconds_of(began) + 601 - lived.now)
    assert lived.states() == {"app": "running restarts=7 ready"}
    lived.annotate("exit-code", "1").annotate("run-seconds", "0").run()
    for seconds in ("10s", "20s", "40s"):
        waiting = lived.pod["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["message"].startswith(f"back-off {seconds} restarting")
        lived.run(lived.settle())


def test_changed_fate():
    """An annotation that changes while the pod runs takes effect from then on."""
    lived = Lived(pod_of()).run(3600)
    assert lived.annotate("ready", "false").run().states() == {"app": "running"}
    assert lived.condition("Ready")[0] == "False"
    assert lived.annotate("ready", "true").run().states() == {"app": "running ready"}
    lived.annotate("exit-code", "137").run()
    assert lived.states() == {"app": "running restarts=1 ready"}
    finished = lived.pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert finished["finishedAt"] == text_of(START + 3600)


def test_image_that_appears():
    """A container starts when its image can be pulled."""
    lived = Lived(pod_of(annotations={"image-pull-error": "not found"})).run(60)
    waiting = lived.pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'Back-off pulling image "nginx": ErrImagePull: not found'
    assert lived.annotate("image-pull-error", "").run().states() == {"app": "running ready"}


def test_readiness_gates():
    """A pod is ready when the conditions of its readiness gates are true."""
    lived = Lived(pod_of(readinessGates=[{"conditionType": "example.com/up"}])).run()
    missing = 'corresponding condition of pod readiness gate "example.com/up" does not exist.'
    assert lived.condition("Ready") == ("False", "ReadinessGatesNotReady", missing)
    for value in ("False", "True"):
        conditions = lived.pod["status"]["conditions"]
        conditions = [each for each in conditions if each["type"] != "example.com/up"]
        conditions.append({"type": "example.com/up", "status": value})
        lived.pod = lived.pod | {"status": lived.pod["status"] | {"conditions": conditions}}
        lived.run()
        assert lived.condition("Ready")[0] == value
        assert lived.condition("ContainersReady")[0] == "True"


DELETIONS = {
    "server": ({}, 0, {"app": "terminated Completed 0"}, "Succeeded"),
    "work": ({"run-seconds": "900"}, 0, {"app": "terminated Error 143"}, "Failed"),
    "slow": ({"stop-seconds": "20"}, 20, {"app": "terminated Completed 0"}, "Succeeded"),
    "too slow": ({"stop-seconds": "99"}, 30, {"app": "terminated Error 137"}, "Failed"),
    "crash loop": (
        {"exit-code": "1", "run-seconds": "0"},
        0, {"app": "terminated Error 1 restarts=1"}, "Failed",
    ),
    "never started": (
        {"image-pull-error": "x"}, 0, {"app": "waiting ImagePullBackOff"}, "Pending",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DELETIONS)
def test_deletion(name):
    """A deleted pod goes when its containers have ended, and not later than its grace period."""
    annotations, seconds, states, phase = DELETIONS[name]
    lived = Lived(pod_of(annotations=annotations)).run(5).delete(grace=30)
    if seconds:
        assert not lived.run(seconds - 1).gone
        lived.run(1)
    else:
        lived.run()
    assert lived.gone
    assert (lived.phase, lived.states()) == (phase, states)


def test_deletion_with_finalizers():
    """A pod with finalizers is removed once, and then waits for them."""
    lived = Lived(pod_of()).run().delete()
    lived.pod["metadata"]["finalizers"] = ["example.com/held"]
    assert lived.run().gone
    lived.delete(grace=0)
    lived.pod["metadata"]["finalizers"] = ["example.com/held"]
    step = next_step(lived.pod, HOST, START)
    assert (step.status, step.wait, step.gone) == (None, None, False)


def test_deadline():
    """A pod that runs for activeDeadlineSeconds fails."""
    lived = Lived(pod_of(activeDeadlineSeconds=5)).run(5)
    status = lived.pod["status"]
    assert (status["reason"], status["message"]) == (
        "DeadlineExceeded", "Pod was active on the node longer than the specified deadline",
    )  # fmt: skip
    assert lived.condition("Ready") == ("False", "PodFailed", "")


def test_host_network():
    """A pod in the network of its host has the address of the node."""
    lived = Lived(pod_of(hostNetwork=True)).run()
    assert lived.pod["status"]["podIP"] == "172.18.0.2"


def test_unreadable_annotations():
    """An annotation that cannot be read counts as missing, and can be reported."""
    pod = pod_of(
        annotations={"exit-code": "many", "redy": "false", "oom": "perhaps", "ready": "true"}
    )
    assert Lived(pod).run(60).states() == {"app": "running ready"}
    assert [text.partition(":")[0].partition("/")[2] for text in unreadable_annotations(pod)] == [
        "exit-code", "redy", "oom",
    ]  # fmt: skip
