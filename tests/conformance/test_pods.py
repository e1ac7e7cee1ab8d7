"""sig-node: how pods and their containers live. Annotations take the place of programs."""

from __future__ import annotations

import itertools

import pytest

from tests.conformance.cluster import (
    FATE,
    STRATEGIC,
    condition,
    is_ready,
    meta,
    pod,
    spec,
)

PROBES = {
    "http": {"httpGet": {"path": "/healthz", "port": 8080}},
    "exec": {"exec": {"command": ["cat", "/tmp/health"]}},
    "tcp": {"tcpSocket": {"port": 8080}},
    "grpc": {"grpc": {"port": 5000}},
}
INIT = [{"name": name, "image": "busybox"} for name in ("init1", "init2")]


def container_of(cluster, name, at=0):
    return cluster.get("pods", name)["status"]["containerStatuses"][at]


def probed(name, annotations=None, **probes):
    found = pod(name, annotations=annotations)
    found["spec"]["containers"][0] |= {f"{kind}Probe": probe for kind, probe in probes.items()}
    return found


# Pods.


@spec("Pods should be submitted and removed")
def test_submitted_and_removed(cluster):
    created = cluster.create("pods", pod("web", {"name": "foo"}))
    assert is_ready(cluster.get("pods", "web"))
    cluster.delete("pods", "web")
    events = cluster.watch("pods", created["metadata"]["resourceVersion"], "name=foo")
    assert set(events) == {"MODIFIED", "DELETED"}
    assert cluster.list("pods", "name=foo") == []


@spec("Pods should be updated")
def test_updated(cluster):
    cluster.create("pods", pod("web", {"time": "1"}))
    cluster.change("pods", "web", lambda found: found["metadata"].update(labels={"time": "2"}))
    assert cluster.names("pods", "time=2") == ["web"]
    assert is_ready(cluster.get("pods", "web"))


@spec("Pods should allow activeDeadlineSeconds to be updated")
def test_deadline(cluster):
    cluster.create("pods", pod("web"))
    assert is_ready(cluster.get("pods", "web"))
    cluster.change("pods", "web", lambda found: found["spec"].update(activeDeadlineSeconds=5))
    cluster.advance("5s")
    status = cluster.get("pods", "web")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


@spec("Pods should get a host IP")
def test_host_ip(cluster):
    cluster.create("pods", pod("web"))
    status = cluster.get("pods", "web")["status"]
    assert status["hostIP"]
    assert status["hostIPs"] == [{"ip": status["hostIP"]}]


@spec("Pods should delete a collection of pods")
def test_collection(cluster):
    for number in range(3):
        cluster.create("pods", pod(f"test-pod-{number}", {"type": "Testing"}))
    assert len(cluster.list("pods", "type=Testing")) == 3
    cluster.delete_all("pods", "type=Testing")
    assert cluster.list("pods", "type=Testing") == []


@spec("Pods should patch a pod status")
def test_patched_status(cluster):
    cluster.create("pods", pod("web"))
    assert is_ready(cluster.get("pods", "web"))
    patch = {"status": {"message": "Patched by e2e test", "reason": "E2E"}}
    cluster.patch("pods", "web", patch, "status")
    status = cluster.get("pods", "web")["status"]
    assert (status["message"], status["reason"]) == ("Patched by e2e test", "E2E")


@spec("Pods should run through the lifecycle of Pods and PodStatus")
def test_lifecycle(cluster):
    labels = {"test-pod-static": "true"}
    created = cluster.create("pods", pod("web", labels))
    assert is_ready(cluster.get("pods", "web"))
    patch = {
        "metadata": {"labels": {"test-pod": "patched"}},
        "spec": {"containers": [{"name": "app", "image": "agnhost"}]},
    }
    cluster.patch("pods", "web", patch, type=STRATEGIC)
    found = cluster.get("pods", "web")
    assert found["metadata"]["labels"]["test-pod"] == "patched"
    assert found["spec"]["containers"][0]["image"] == "agnhost"
    assert is_ready(found)

    def unready(found):
        for each in found["status"]["conditions"]:
            if each["type"] == "Ready":
                each["status"] = "False"

    updated = cluster.change("pods", "web", unready, "status")
    assert condition(updated, "Ready")["status"] == "False"
    cluster.delete_all("pods", "test-pod-static=true")
    version = created["metadata"]["resourceVersion"]
    assert cluster.watch("pods", version, "test-pod-static=true")[-1] == "DELETED"


@spec(
    "Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests "
    "and limits for memory and cpu"
)
def test_qos_class(cluster):
    found = pod("web")
    resources = {"cpu": "100m", "memory": "100Mi"}
    found["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    cluster.create("pods", found)
    assert cluster.get("pods", "web")["status"]["qosClass"] == "Guaranteed"


@spec(
    "Pods Extended (pod generation) Pod Generation pod generation should start at 1 and "
    "increment per update"
)
def test_generation(cluster):
    created = cluster.create("pods", pod("web"))
    assert created["metadata"]["generation"] == 1
    toleration = {"key": "foo-1", "operator": "Exists", "effect": "NoSchedule"}
    changes = [
        (lambda found: found["metadata"].update(annotations={"key1": "value1"}), 1),
        (lambda found: found["spec"]["tolerations"].append(toleration), 2),
        (lambda found: found["spec"]["containers"][0].update(image="agnhost"), 3),
        (lambda found: found["spec"].update(activeDeadlineSeconds=1000), 4),
    ]
    for change, generation in changes:
        cluster.change("pods", "web", change)
        found = cluster.get("pods", "web")
        assert found["metadata"]["generation"] == generation
        assert found["status"]["observedGeneration"] == generation
        assert condition(found, "Ready")["observedGeneration"] == generation


@spec(
    "Pods Extended (pod generation) Pod Generation custom-set generation on new pods and "
    "graceful delete"
)
def test_custom_generation(cluster):
    found = pod("web", annotations={"stop-seconds": "10"})
    found["metadata"]["generation"] = 100
    assert cluster.create("pods", found)["metadata"]["generation"] == 1
    assert is_ready(cluster.get("pods", "web"))
    cluster.delete("pods", "web")
    assert cluster.get("pods", "web")["metadata"]["generation"] == 2
    cluster.advance("10s")
    cluster.get("pods", "web", status=404)


@spec(
    "Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify "
    "generation and observedGeneration eventually converge"
)
def test_many_generations(cluster):
    cluster.create("pods", pod("web"))
    client = cluster.server.internal_client().resource("v1", "pods", namespace=cluster.namespace)
    for number in range(500):
        deadline = {"spec": {"activeDeadlineSeconds": 100_000 - number}}
        cluster.server.run(client.patch("web", deadline))
    found = cluster.get("pods", "web")
    assert found["metadata"]["generation"] == 501
    assert found["status"]["observedGeneration"] == 501


# Containers.


@spec(
    "Container Runtime blackbox test when starting a container that exits should run with "
    "the expected status"
)
@pytest.mark.parametrize(
    ("policy", "phase", "state", "restarts"),
    [("Always", "Running", "running", 2), ("OnFailure", "Succeeded", "terminated", 1),
     ("Never", "Failed", "terminated", 0)],
)  # fmt: skip
def test_container_that_exits(cluster, policy, phase, state, restarts):
    """It fails at first; `Always` and `OnFailure` restart it, and then it succeeds or runs."""
    fate = {"exit-code": "1", "run-seconds": "0"}
    cluster.create("pods", pod("web", annotations=fate, restartPolicy=policy))
    cluster.get("pods", "web")
    if policy == "OnFailure":
        cluster.patch("pods", "web", {"metadata": {"annotations": {f"{FATE}exit-code": "0"}}})
        cluster.advance("20s")
    if policy == "Always":
        cluster.advance("10s")
        remove = {f"{FATE}exit-code": None, f"{FATE}run-seconds": None}
        cluster.patch("pods", "web", {"metadata": {"annotations": remove}})
        cluster.advance("60s")
    found = container_of(cluster, "web")
    assert cluster.get("pods", "web")["status"]["phase"] == phase
    assert state in found["state"]
    assert found["restartCount"] >= restarts
    assert found["ready"] == (policy == "Always")


@spec(
    "Container Runtime blackbox test on terminated container should report termination message if "
    "TerminationMessagePath is set as non-root user and at a non-default path",
    "Container Runtime blackbox test on terminated container should report termination message "
    "from file when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set",
)
def test_termination_message(cluster):
    fate = {"exit-code": "0", "termination-message": "DONE"}
    found = pod("web", annotations=fate, restartPolicy="Never")
    found["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    cluster.create("pods", found)
    cluster.get("pods", "web")
    cluster.advance("1s")
    assert container_of(cluster, "web")["state"]["terminated"]["message"] == "DONE"


@spec(
    "Container Runtime blackbox test on terminated container should report termination message as "
    "empty when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set"
)
def test_empty_termination_message(cluster):
    found = pod("web", annotations={"exit-code": "0", "log": "DONE"}, restartPolicy="Never")
    found["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    cluster.create("pods", found)
    cluster.get("pods", "web")
    cluster.advance("1s")
    assert "message" not in container_of(cluster, "web")["state"]["terminated"]


@spec(
    "Container Runtime blackbox test on terminated container should report termination message "
    "from log output if TerminationMessagePolicy FallbackToLogsOnError is set"
)
def test_termination_message_from_log(cluster):
    found = pod("web", annotations={"exit-code": "1", "log": "DONE"}, restartPolicy="Never")
    found["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    cluster.create("pods", found)
    cluster.get("pods", "web")
    cluster.advance("1s")
    assert container_of(cluster, "web")["state"]["terminated"]["message"] == "DONE"


@spec("Ephemeral Containers will start an ephemeral container in an existing pod")
def test_ephemeral_container(cluster):
    cluster.create("pods", pod("web"))
    assert is_ready(cluster.get("pods", "web"))
    debugger = {"name": "debugger", "image": "busybox", "command": ["/bin/sh"]}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    cluster.patch("pods", "web", patch, "ephemeralcontainers", STRATEGIC)
    (status,) = cluster.get("pods", "web")["status"]["ephemeralContainerStatuses"]
    assert "running" in status["state"]


@spec("Ephemeral Containers should update the ephemeral containers in an existing pod")
def test_ephemeral_containers(cluster):
    cluster.create("pods", pod("web"))
    for number, type in ((1, STRATEGIC), (2, STRATEGIC)):
        debugger = {"name": f"debugger{number}", "image": "busybox"}
        patch = {"spec": {"ephemeralContainers": [debugger]}}
        cluster.patch("pods", "web", patch, "ephemeralcontainers", type)
    found = cluster.get("pods", "web", "ephemeralcontainers")
    names = [each["name"] for each in found["spec"]["ephemeralContainers"]]
    assert sorted(names) == ["debugger1", "debugger2"]
    statuses = cluster.get("pods", "web")["status"]["ephemeralContainerStatuses"]
    assert ["running" in each["state"] for each in statuses] == [True, True]


@spec(
    "InitContainer should invoke init containers on a RestartAlways pod",
    "InitContainer should invoke init containers on a RestartNever pod",
)
@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_init_containers(cluster, policy):
    fate = {} if policy == "Always" else {"exit-code": "0"}
    cluster.create("pods", pod("web", None, fate, restartPolicy=policy, initContainers=INIT))
    cluster.get("pods", "web")
    cluster.advance("1s")
    status = cluster.get("pods", "web")["status"]
    assert status["phase"] == ("Running" if policy == "Always" else "Succeeded")
    assert condition({"status": status}, "Initialized")["status"] == "True"
    codes = [each["state"]["terminated"]["exitCode"] for each in status["initContainerStatuses"]]
    assert codes == [0, 0]


@spec(
    "InitContainer should not start app containers if init containers fail on a RestartAlways pod"
)
def test_failed_init_container(cluster):
    fate = {"exit-code.init1": "1"}
    cluster.create("pods", pod("web", None, fate, initContainers=INIT))
    cluster.get("pods", "web")
    cluster.advance("60s")
    status = cluster.get("pods", "web")["status"]
    assert status["phase"] == "Pending"
    assert condition({"status": status}, "Initialized")["reason"] == "ContainersNotInitialized"
    first, second = status["initContainerStatuses"]
    assert first["restartCount"] >= 3
    assert "waiting" in second["state"]
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


@spec(
    "InitContainer should not start app containers and fail the pod if init containers fail on a "
    "RestartNever pod"
)
def test_failed_init_container_without_restarts(cluster):
    fate = {"exit-code.init2": "1"}
    cluster.create("pods", pod("web", None, fate, restartPolicy="Never", initContainers=INIT))
    status = cluster.get("pods", "web")["status"]
    assert status["phase"] == "Failed"
    message = condition({"status": status}, "Initialized")["message"]
    assert message == "containers with incomplete status: [init2]"
    assert "waiting" in status["containerStatuses"][0]["state"]


@spec(
    "Kubelet when scheduling a busybox command that always fails in a pod should have an "
    "terminated reason",
    "Kubelet when scheduling a busybox command that always fails in a pod should be possible to "
    "delete",
)
def test_command_that_fails(cluster):
    fate = {"exit-code": "1", "run-seconds": "0"}
    cluster.create("pods", pod("never", annotations=fate, restartPolicy="Never"))
    terminated = container_of(cluster, "never")["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (1, "Error")
    cluster.create("pods", pod("always", annotations=fate))
    cluster.get("pods", "always")
    cluster.delete("pods", "always")
    cluster.get("pods", "always", status=404)


# Probes.


@spec(
    "Probing container should *not* be restarted with a /healthz http liveness probe",
    "Probing container should *not* be restarted with a GRPC liveness probe",
    'Probing container should *not* be restarted with a exec "cat /tmp/health" liveness probe',
    "Probing container should *not* be restarted with a tcp:8080 liveness probe",
)
@pytest.mark.parametrize("kind", PROBES)
def test_liveness_succeeds(cluster, kind):
    probe = PROBES[kind] | {"initialDelaySeconds": 15, "failureThreshold": 1}
    cluster.create("pods", probed("web", liveness=probe))
    cluster.get("pods", "web")
    cluster.advance("4m")
    assert container_of(cluster, "web")["restartCount"] == 0


@spec(
    "Probing container should be restarted with a /healthz http liveness probe",
    "Probing container should be restarted with a GRPC liveness probe",
    'Probing container should be restarted with a exec "cat /tmp/health" liveness probe',
)
@pytest.mark.parametrize("kind", ["http", "exec", "grpc"])
def test_liveness_fails(cluster, kind):
    probe = PROBES[kind] | {"initialDelaySeconds": 15, "failureThreshold": 1}
    cluster.create("pods", probed("web", {"live": "false"}, liveness=probe))
    assert container_of(cluster, "web")["restartCount"] == 0
    cluster.advance("16s")
    assert container_of(cluster, "web")["restartCount"] == 1
    assert "Container app failed liveness probe, will be restarted" in cluster.events("Killing")


@spec("Probing container should have monotonically increasing restart count")
def test_restart_count(cluster):
    probe = PROBES["http"] | {"initialDelaySeconds": 5, "failureThreshold": 1}
    cluster.create("pods", probed("web", {"live": "false"}, liveness=probe))
    cluster.get("pods", "web")
    counts = []
    for _ in range(20):
        cluster.advance("30s")
        counts.append(container_of(cluster, "web")["restartCount"])
    assert counts[-1] >= 5
    assert all(before <= after for before, after in itertools.pairwise(counts))


@spec(
    "Probing container with readiness probe should not be ready before initial delay and never "
    "restart"
)
def test_readiness_delay(cluster):
    probe = PROBES["http"] | {"initialDelaySeconds": 30}
    cluster.create("pods", probed("web", readiness=probe))
    assert not is_ready(cluster.get("pods", "web"))
    cluster.advance("29s")
    assert not is_ready(cluster.get("pods", "web"))
    cluster.advance("1s")
    assert is_ready(cluster.get("pods", "web"))
    assert container_of(cluster, "web")["restartCount"] == 0


@spec("Probing container with readiness probe that fails should never be ready and never restart")
def test_readiness_fails(cluster):
    cluster.create("pods", probed("web", {"ready": "false"}, readiness=PROBES["exec"]))
    cluster.get("pods", "web")
    cluster.advance("5m")
    assert not is_ready(cluster.get("pods", "web"))
    assert container_of(cluster, "web")["restartCount"] == 0


# Admission of pods.


@spec(
    "RuntimeClass should reject a Pod requesting a non-existent RuntimeClass",
    "RuntimeClass should reject a Pod requesting a deleted RuntimeClass",
)
def test_absent_runtime_class(cluster):
    name = f"class-{cluster.namespace}"
    cluster.create("runtimeclasses", meta(name) | {"handler": "handler"})
    cluster.server.settle()
    cluster.delete("runtimeclasses", name)
    cluster.server.settle()
    cluster.create("pods", pod("web", runtimeClassName=name), status=403)


@spec(
    "RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead",
    "RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead",
)
@pytest.mark.parametrize("overhead", [None, {"cpu": "10m", "memory": "1Mi"}])
def test_runtime_class(cluster, overhead):
    name = f"class-{cluster.namespace}"
    fields = {"handler": "handler"} | ({"overhead": {"podFixed": overhead}} if overhead else {})
    cluster.create("runtimeclasses", meta(name) | fields)
    cluster.server.settle()
    cluster.create("pods", pod("web", runtimeClassName=name))
    found = cluster.get("pods", "web")
    assert found["spec"]["nodeName"]
    assert found["spec"].get("overhead") == overhead


@spec("Sysctls should reject invalid sysctls")
def test_sysctls(cluster):
    names = ("foo-", "kernel.shmmax", "safe-and-unsafe", "bar..")
    sysctls = [{"name": name, "value": "1"} for name in names]
    refused = cluster.create("pods", pod("web", securityContext={"sysctls": sysctls}), status=422)
    for name in ("foo-", "bar.."):
        assert f'"{name}"' in refused["message"]
    assert "kernel.shmmax" not in refused["message"]
