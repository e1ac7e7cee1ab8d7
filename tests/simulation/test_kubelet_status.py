"""What a simulated kubelet reports beyond phases: restart rules, probes, ephemeral containers,
messages, users, and the order in which containers stop. The cases follow generateAPIPodStatus."""

from __future__ import annotations

import pytest

from kapiserver.simulation.fate import fate_of
from kapiserver.simulation.pod_life import Host
from tests.simulation.pods import HOST, START, Lived, pod_of
from tests.times import text_of

SIDECAR = {"name": "proxy", "restartPolicy": "Always"}
NOT_FOUND = (
    'failed to pull and unpack image "docker.io/library/nginx:latest": failed to resolve '
    'reference "docker.io/library/nginx:latest": docker.io/library/nginx:latest: not found'
)


def rule(operator, *values, action="Restart"):
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


def ruled(*rules, policy="Never", name="app"):
    return {"name": name, "restartPolicy": policy, "restartPolicyRules": list(rules)}


def probed(**probes):
    return {"name": "app"} | {f"{kind}Probe": probe for kind, probe in probes.items()}


STATES = {
    "a rule restarts an exit code": (
        pod_of(ruled(rule("In", 42)), annotations={"exit-code": "42"}, policy="Never"),
        1, "Running", {"app": "running restarts=1 ready"},
    ),
    "a rule that does not match": (
        pod_of(ruled(rule("In", 42)), annotations={"exit-code": "1"}, policy="Never"),
        1, "Failed", {"app": "terminated Error 1"},
    ),
    "a rule for other codes": (
        pod_of(ruled(rule("NotIn", 1)), annotations={"exit-code": "2"}, policy="Never"),
        1, "Running", {"app": "running restarts=1 ready"},
    ),
    "the first rule that matches": (
        pod_of(ruled(rule("In", 3), rule("NotIn", 9)), annotations={"exit-code": "9"}),
        1, "Failed", {"app": "terminated Error 9"},
    ),
    "a policy of a container wins over that of its pod": (
        pod_of({"name": "app", "restartPolicy": "OnFailure"}, policy="Never",
               annotations={"exit-code": "1"}),
        1, "Running", {"app": "running restarts=1 ready"},
    ),
    "a pod whose policies differ runs on": (
        pod_of({"name": "app", "restartPolicy": "Never"}, "log",
               annotations={"run-seconds.app": "1"}),
        5, "Running", {"app": "terminated Completed 0", "log": "running ready"},
    ),
    "an init container that never restarts fails its pod": (
        pod_of(init=({"name": "one", "restartPolicy": "Never"},),
               annotations={"exit-code.one": "1"}),
        1, "Failed", {"one": "terminated Error 1", "app": "waiting PodInitializing"},
    ),
    "an init container that restarts although its pod does not": (
        pod_of(init=({"name": "one", "restartPolicy": "OnFailure"},), policy="Never",
               annotations={"exit-code.one": "1"}),
        1, "Pending",
        {"one": "waiting CrashLoopBackOff restarts=1", "app": "waiting PodInitializing"},
    ),
    "a rule restarts all containers": (
        pod_of(ruled(rule("In", 42, action="RestartAllContainers")), "log", init=("one",),
               annotations={"exit-code.app": "42", "run-seconds.app": "5"}, policy="Never"),
        5, "Running",
        {"one": "terminated Completed 0 restarts=1 ready", "app": "running restarts=1 ready",
         "log": "running restarts=1 ready"},
    ),
    "before liveness fails": (
        pod_of(probed(liveness={"initialDelaySeconds": 5, "failureThreshold": 2}),
               annotations={"live": "false"}),
        14, "Running", {"app": "running ready"},
    ),
    "a failed liveness probe restarts": (
        pod_of(probed(liveness={"initialDelaySeconds": 5, "failureThreshold": 2}),
               annotations={"live": "false"}),
        15, "Running", {"app": "running restarts=1 ready"},
    ),
    "liveness begins after startup": (
        pod_of(probed(startup={"initialDelaySeconds": 10}, liveness={"failureThreshold": 1}),
               annotations={"live": "false"}),
        9, "Running", {"app": "running"},
    ),
    "a failed startup probe restarts": (
        pod_of(probed(startup={"periodSeconds": 1, "failureThreshold": 3}),
               annotations={"started": "false"}),
        2, "Running", {"app": "running restarts=1"},
    ),
    "a probe that is not there cannot fail": (
        pod_of(annotations={"live": "false", "started": "false"}),
        600, "Running", {"app": "running ready"},
    ),
    "a failed liveness probe ends a pod without restarts": (
        pod_of(probed(liveness={"failureThreshold": 1}), annotations={"live": "false"},
               policy="Never"),
        1, "Failed", {"app": "terminated Error 137"},
    ),
    "an image that is not found": (
        pod_of(annotations={"image-pull-error": "not found"}),
        0, "Pending", {"app": "waiting ErrImagePull"},
    ),
    "an ephemeral container": (
        pod_of(ephemeralContainers=[{"name": "debugger", "image": "busybox"}]),
        60, "Running", {"app": "running ready", "debugger": "running"},
    ),
    "an ephemeral container that ends": (
        pod_of(ephemeralContainers=[{"name": "debugger", "image": "busybox"}],
               annotations={"exit-code.debugger": "3"}),
        60, "Running", {"app": "running ready", "debugger": "terminated Error 3"},
    ),
    "an ephemeral container beside a pod that does not start": (
        pod_of(init=("one",), ephemeralContainers=[{"name": "debugger", "image": "busybox"}],
               annotations={"exit-code.one": "1"}),
        1, "Pending",
        {"one": "waiting CrashLoopBackOff restarts=1", "app": "waiting PodInitializing",
         "debugger": "running"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_states(name):
    """After so many seconds the pod and its containers are in these states."""
    pod, seconds, phase, states = STATES[name]
    lived = Lived(pod).run(seconds)
    assert (lived.phase, lived.states()) == (phase, states)


def status_of(lived, name="app", field="containerStatuses"):
    (status,) = [each for each in lived.pod["status"][field] if each["name"] == name]
    return status


def test_restart_of_all_containers():
    """The status says for one write that all containers restart; after it they have begun anew."""
    pod = pod_of(ruled(rule("In", 42, action="RestartAllContainers")), policy="Never",
                 annotations={"exit-code": "42"})  # fmt: skip
    lived = Lived(pod).run()
    assert lived.condition("AllContainersRestarting") == ("False", "", "")
    seen = []
    for status in lived.run(1).written:
        (condition,) = [c for c in status["conditions"] if c["type"] == "AllContainersRestarting"]
        seen.append((condition["status"], condition.get("reason", "")))
    assert ("True", "RestartAllContainersStarted") in seen
    assert seen[-1] == ("False", "")
    terminated = status_of(lived)["lastState"]["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("RestartingAllContainers", 137)


def test_fields_of_a_running_container():
    """User, resources and mounts are those of the spec."""
    app = {
        "name": "app",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        "securityContext": {"runAsUser": 7},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "conf", "mountPath": "/conf", "readOnly": True},
        ],
    }
    security = {"runAsUser": 1, "runAsGroup": 3, "fsGroup": 9, "supplementalGroups": [5]}
    status = status_of(Lived(pod_of(app, securityContext=security)).run())
    assert status["user"] == {"linux": {"uid": 7, "gid": 3, "supplementalGroups": [3, 5, 9]}}
    assert status["resources"] == app["resources"]
    assert status["allocatedResources"] == {"cpu": "1"}
    assert status["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "conf", "mountPath": "/conf", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]
    assert status_of(Lived(pod_of()).run())["resources"] == {}


def test_order_of_statuses():
    """Init containers are reported as in the spec, the others by name."""
    pod = pod_of("web", "app", init=("two", "one"))
    status = Lived(pod).run().pod["status"]
    assert [each["name"] for each in status["initContainerStatuses"]] == ["two", "one"]
    assert [each["name"] for each in status["containerStatuses"]] == ["app", "web"]


def test_unready_containers_are_named_as_in_the_spec():
    """Sidecars come first."""
    pod = pod_of("web", "app", init=(SIDECAR,), annotations={"ready": "false"})
    lived = Lived(pod).run()
    message = "containers with unready status: [web app]"
    assert lived.condition("Ready") == ("False", "ContainersNotReady", message)


def test_termination_message():
    """An annotation is what the container left in its file, at most 4096 bytes."""
    pod = pod_of(annotations={"exit-code": "1", "termination-message": "broken"}, policy="Never")
    assert status_of(Lived(pod).run(1))["state"]["terminated"]["message"] == "broken"
    pod = pod_of(annotations={"termination-message": "ä" * 4096})
    assert fate_of(pod, "app").termination_message == "ä" * 2048


def test_ephemeral_status():
    """An ephemeral container is neither started nor ready."""
    lived = Lived(pod_of(ephemeralContainers=[{"name": "debugger", "image": "busybox"}])).run()
    status = status_of(lived, "debugger", "ephemeralContainerStatuses")
    assert "started" not in status
    assert status["containerID"].startswith("containerd://")


def test_ephemeral_container_of_a_running_pod():
    """It starts when it is added, and ends with its pod."""
    lived = Lived(pod_of()).run(60)
    lived.pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "image": "busybox"}]
    assert lived.run().states()["debugger"] == "running"
    lived.delete().run()
    assert lived.states()["debugger"] == "terminated Completed 0"
    assert lived.gone


def test_image_of_a_running_container():
    """A container gets another image by a restart, without a back-off."""
    lived = Lived(pod_of()).run(60)
    lived.pod["spec"]["containers"][0]["image"] = "nginx:2"
    assert lived.run().states() == {"app": "running restarts=1 ready"}
    assert status_of(lived)["image"] == "docker.io/library/nginx:2"


def test_missing_image():
    """A node that misses an image reports containerd's words; then the image appears."""
    missing = Host(HOST.pod_ips, HOST.host_ips, frozenset({"docker.io/library/nginx:latest"}))
    lived = Lived(pod_of(), host=missing).run()
    waiting = status_of(lived)["state"]["waiting"]
    assert waiting == {"reason": "ErrImagePull", "message": NOT_FOUND}
    lived.run(1)
    assert status_of(lived)["state"]["waiting"] == {
        "reason": "ImagePullBackOff",
        "message": f'Back-off pulling image "nginx": ErrImagePull: {NOT_FOUND}',
    }
    lived.host = HOST
    assert lived.run().states() == {"app": "running ready"}


@pytest.mark.parametrize(
    ("policy", "state"),
    [("IfNotPresent", "running restarts=1 ready"), ("Always", "waiting ImagePullBackOff")],
)
def test_missing_image_of_a_restart(policy, state):
    """A container that has run pulls its image again only if its pull policy says so."""
    pod = pod_of({"name": "app", "imagePullPolicy": policy}, annotations={"run-seconds": "60"})
    lived = Lived(pod).run(59)
    lived.host = Host(missing_images=frozenset({"docker.io/library/nginx:latest"}))
    assert lived.run(1).states() == {"app": state}
    if policy == "Always":
        lived.host = HOST
        assert lived.run().states() == {"app": "running restarts=1 ready"}


def test_dual_stack():
    """A pod has all its addresses and those of its node."""
    host = Host(["10.128.0.2", "fd00::2"], ["172.18.0.2", "fd01::2"])
    status = Lived(pod_of(), host=host).run().pod["status"]
    assert (status["podIP"], status["hostIP"]) == ("10.128.0.2", "172.18.0.2")
    assert status["podIPs"] == [{"ip": "10.128.0.2"}, {"ip": "fd00::2"}]
    assert status["hostIPs"] == [{"ip": "172.18.0.2"}, {"ip": "fd01::2"}]


def test_sidecars_stop_after_the_others():
    """The last sidecar stops first, and none later than the grace period."""
    pod = pod_of(
        init=(SIDECAR, {"name": "log", "restartPolicy": "Always"}),
        annotations={"stop-seconds": "5", "stop-seconds.log": "3", "stop-seconds.proxy": "60"},
    )
    lived = Lived(pod).run(60).delete(grace=30)
    assert set(lived.run(4).states().values()) == {"running ready"}
    assert lived.run(1).states() == {
        "proxy": "running ready", "log": "running ready", "app": "terminated Completed 0",
    }  # fmt: skip
    assert lived.run(3).states()["log"] == "terminated Completed 0"
    assert lived.states()["proxy"] == "running ready"
    assert not lived.run(21).gone
    assert lived.run(1).gone
    assert lived.states()["proxy"] == "terminated Error 137"
    assert status_of(lived)["state"]["terminated"]["finishedAt"] == text_of(START + 65)


def test_pre_stop_sleep():
    """A container sleeps before it stops."""
    lifecycle = {"preStop": {"sleep": {"seconds": 7}}}
    lived = Lived(pod_of({"name": "app", "lifecycle": lifecycle})).run().delete()
    assert not lived.run(6).gone
    assert lived.run(1).gone
