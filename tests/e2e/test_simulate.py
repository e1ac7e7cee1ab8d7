"""`kapiserver serve --simulate`, as people use a cluster with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectl_of, start, stop


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two simulated nodes."""
    running = start(tmp_path_factory.mktemp("simulate"), "--simulate", "--simulate-nodes=2")
    yield running
    stop(running)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""
    return kubectl_of(simulating)


def test_nodes(kubectl: Kubectl) -> None:
    """The nodes get ready, and hold Leases."""
    for node in ("simulated-0", "simulated-1"):  # kubectl gives up at once if two are missing
        kubectl("wait", "--for=create", f"node/{node}", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
    rows = [line.split()[:2] for line in kubectl("get", "nodes").splitlines()[1:]]
    assert rows == [["simulated-0", "Ready"], ["simulated-1", "Ready"]]
    assert "HolderIdentity:  simulated-0" in kubectl("describe", "node", "simulated-0")


def test_rollouts(kubectl: Kubectl) -> None:
    """A deployment rolls out, gets another image, goes back, is restarted and goes away."""

    def images() -> set[str]:
        pods = json.loads(kubectl("get", "pods", "-l=app=web", "-o=json"))["items"]
        living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert [pod["status"]["phase"] for pod in living] == ["Running"] * 3
        return {pod["spec"]["containers"][0]["image"] for pod in living}

    def wait() -> None:
        output = kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        assert 'deployment "web" successfully rolled out' in output

    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    wait()
    assert images() == {"nginx"}
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    wait()
    assert images() == {"nginx:2"}
    kubectl("rollout", "undo", "deployment/web")
    wait()
    assert images() == {"nginx"}
    kubectl("rollout", "restart", "deployment/web")
    wait()
    name = kubectl("get", "pods", "-l=app=web", "-o=name").split()[0]
    assert kubectl("delete", name).startswith("pod ")
    wait()
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert kubectl("get", "pods", "-l=app=web") == ""


TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "main", "image": "db:1"}]},
}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("StatefulSet", {"serviceName": "db", "replicas": 2}), ("DaemonSet", {})],
    ids=["StatefulSet", "DaemonSet"],
)
def test_rollouts_of_ordered_and_of_node_pods(
    kubectl: Kubectl, kind: str, spec: dict[str, object]
) -> None:
    """A StatefulSet and a DaemonSet roll out, go back and are restarted by kubectl."""
    name = f"{kind.lower()}/db"
    selected = spec | {"selector": {"matchLabels": {"app": "db"}}, "template": TEMPLATE}
    workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db"}, "spec": selected}

    def pods(path: str, *change: str) -> list[str]:
        """Change the workload, wait for its pods, and return a field of them."""
        kubectl(*change, stdin=json.dumps(workload))
        kubectl("rollout", "status", name, "--timeout=60s")
        return kubectl("get", "pods", "-l=app=db", f"-o=jsonpath={{.items[*]{path}}}").split()

    image = ".spec.containers[0].image"
    assert pods(image, "create", "-f=-") == ["db:1"] * 2
    assert pods(image, "set", "image", name, "main=db:2") == ["db:2"] * 2
    before = pods(".metadata.uid", "rollout", "undo", name)
    after = pods(".metadata.uid", "rollout", "restart", name)
    assert not set(before) & set(after)
    assert pods(image, "rollout", "undo", name, "--to-revision=2") == ["db:2"] * 2
    assert "CHANGE-CAUSE" in kubectl("rollout", "history", name)
    kubectl("delete", name, "--cascade=foreground", "--timeout=60s")


def test_fates(kubectl: Kubectl) -> None:
    """Annotations decide how a pod lives, also while it runs."""
    prefix = "simulation.kapiserver.dev"
    kubectl("run", "one", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    kubectl("annotate", "pod", "one", f"{prefix}/ready=false")
    kubectl("wait", "--for=condition=Ready=false", "pod/one", "--timeout=60s")
    kubectl("annotate", "pod", "one", f"{prefix}/exit-code=3")
    crashed = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff"
    kubectl("wait", f"--for={crashed}", "pod/one", "--timeout=60s")
    kubectl("delete", "pod", "one", "--timeout=60s")


def test_a_pod_that_fits_nowhere(kubectl: Kubectl) -> None:
    """`kubectl describe` shows why a pod has no node; it runs when a node gets room for it."""
    container = {"name": "big", "image": "nginx", "resources": {"requests": {"cpu": "100"}}}
    kubectl("run", "big", "--image=nginx", f"--overrides={_spec(containers=[container])}")
    kubectl("wait", "--for=condition=PodScheduled=false", "pod/big", "--timeout=60s")
    described = " ".join(kubectl("describe", "pod", "big").split())
    assert "FailedScheduling" in described
    assert (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling." in described
    )
    room = json.dumps({"status": {"allocatable": {"cpu": "200", "pods": "110"}}})
    kubectl("patch", "node", "simulated-0", "--subresource=status", f"--patch={room}")
    kubectl("wait", "--for=condition=Ready", "pod/big", "--timeout=60s")
    assert "Successfully assigned default/big to simulated-0" in kubectl("describe", "pod", "big")
    kubectl("delete", "pod", "big", "--timeout=60s")


def _spec(**fields: object) -> str:
    return json.dumps({"spec": fields})


DEVICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one-gpu}
spec:
  driver: one.example.com
  nodeName: simulated-1
  pool: {name: one-gpu, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: one}
spec:
  selectors: [{cel: {expression: device.driver == "one.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: one}}]
"""


def test_devices(kubectl: Kubectl) -> None:
    """Two pods want the only device: one after the other gets it, with a claim of its own."""
    kubectl("create", "-f", "-", stdin=DEVICES)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    for name in ("first", "second"):
        overrides = _spec(resourceClaims=claims)
        kubectl("run", name, "--image=nginx", f"--overrides={overrides}")
        condition = "Ready" if name == "first" else "PodScheduled=false"
        kubectl("wait", f"--for=condition={condition}", f"pod/{name}", "--timeout=60s")
    assert "cannot allocate all claims" in kubectl("describe", "pod", "second")
    states = sorted(line.split()[1] for line in kubectl("get", "resourceclaims").splitlines()[1:])
    assert states == ["allocated,reserved", "pending"]
    kubectl("delete", "pod", "first", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", "pod/second", "--timeout=60s")
    assert "Node:             simulated-1/" in kubectl("describe", "pod", "second")
    kubectl("delete", "pod", "second", "--timeout=60s")
    kubectl("wait", "--for=delete", "resourceclaims", "--all", "--timeout=60s")
    assert kubectl("get", "resourceclaims") == ""


def test_pause(kubectl: Kubectl) -> None:
    """A rollout that is paused waits until it is resumed."""

    def images() -> str:
        path = "-o=jsonpath={.items[*].spec.template.spec.containers[0].image}"
        return kubectl("get", "replicasets", "-l=app=paused", path)

    kubectl("create", "deployment", "paused", "--image=nginx", "--replicas=2")
    kubectl("rollout", "status", "deployment/paused", "--timeout=60s")
    kubectl("rollout", "pause", "deployment/paused")
    kubectl("set", "image", "deployment/paused", "nginx=nginx:2")
    paused = "jsonpath={.status.conditions[?(@.type=='Progressing')].reason}=DeploymentPaused"
    kubectl("wait", f"--for={paused}", "deployment/paused", "--timeout=60s")
    assert images() == "nginx"
    kubectl("rollout", "resume", "deployment/paused")
    kubectl("rollout", "status", "deployment/paused", "--timeout=60s")
    assert sorted(images().split()) == ["nginx", "nginx:2"]
    assert "CHANGE-CAUSE" in kubectl("rollout", "history", "deployment/paused")
    kubectl("delete", "deployment", "paused")


def test_job_of_a_cron_job(kubectl: Kubectl) -> None:
    """A Job made from a CronJob runs to its end at once."""
    kubectl("create", "cronjob", "nightly", "--image=busybox", "--schedule=0 2 * * *")
    kubectl("create", "job", "now", "--from=cronjob/nightly")
    kubectl("wait", "--for=condition=Complete", "job/now", "--timeout=60s")
    kubectl("delete", "cronjob", "nightly")  # its Jobs go, too


def test_debug(kubectl: Kubectl) -> None:
    """An ephemeral container runs beside the others, and so do a copy of the pod and a pod that
    shows the files of a node."""
    kubectl("run", "buggy", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/buggy", "--timeout=60s")
    kubectl("debug", "buggy", "--image=busybox", "--container=debugger")
    running = "jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}"
    kubectl("wait", f"--for={running}", "pod/buggy", "--timeout=60s")
    kubectl("debug", "buggy", "--copy-to=copied", "--set-image=buggy=nginx:2")
    kubectl("wait", "--for=condition=Ready", "pod/copied", "--timeout=60s")
    events = kubectl("describe", "pod", "copied").partition("Events:")[2]
    assert "Container started" in events
    kubectl("debug", "node/simulated-0", "--image=busybox", "--profile=general")
    debugger = "app.kubernetes.io/managed-by=kubectl-debug"
    kubectl("wait", "--for=condition=Ready", "pod", f"-l={debugger}", "--timeout=60s")
    kubectl("delete", "pod", "buggy", "copied", "--timeout=60s")
    kubectl("delete", "pod", f"-l={debugger}", "--timeout=60s")


def test_resize(kubectl: Kubectl) -> None:
    """A pod gets other resources without a restart."""
    resources = {"requests": {"cpu": "1"}}
    sized = {"spec": {"containers": [{"name": "sized", "resources": resources}]}}
    overrides = json.dumps(sized)
    kubectl(
        "run", "sized", "--image=nginx", f"--overrides={overrides}", "--override-type=strategic"
    )
    kubectl("wait", "--for=condition=Ready", "pod/sized", "--timeout=60s")
    kubectl("patch", "pod", "sized", "--subresource=resize", "-p", overrides.replace('"1"', '"2"'))
    resized = "jsonpath={.status.containerStatuses[0].resources.requests.cpu}=2"
    kubectl("wait", f"--for={resized}", "pod/sized", "--timeout=60s")
    kubectl("delete", "pod", "sized", "--timeout=60s")
