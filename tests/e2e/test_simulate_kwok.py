"""kwok's published Stages, applied with kubectl as kwok's users do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectl_of, start, stop
from tests.simulation.kwok import published

pytestmark = pytest.mark.skipif(
    published.folder() is None, reason=f"{published.MODULE} cannot be downloaded"
)

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: kwok-node-0
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {type: kwok, kubernetes.io/hostname: kwok-node-0}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: kwok-volume
  resources: {requests: {storage: 1Gi}}
"""
BROKEN = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: broken}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: ".a[", operator: Exists}]}
"""


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that makes no nodes itself."""
    running = start(tmp_path_factory.mktemp("kwok"), "--simulate", "--simulate-nodes=0")
    yield running
    stop(running)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""
    return kubectl_of(simulating)


def test_fast(kubectl: Kubectl) -> None:
    """The set `fast`: a node of kwok gets ready, a deployment rolls out and goes, a Job ends."""
    kubectl("wait", "--for=create", "crd/stages.kwok.x-k8s.io", "--timeout=60s")
    kubectl("wait", "--for=condition=Established", "crd/stages.kwok.x-k8s.io", "--timeout=60s")
    output = kubectl("apply", "-k", str(published.folder() / "fast"))  # type: ignore[operator]
    assert output.count("stage.kwok.x-k8s.io/") == 5
    kubectl("apply", "-f-", stdin=NODE)
    kubectl("wait", "--for=condition=Ready", "node/kwok-node-0", "--timeout=60s")
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    output = kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert 'deployment "web" successfully rolled out' in output
    kubectl("create", "job", "work", "--image=busybox")
    kubectl("wait", "--for=condition=Complete", "job/work", "--timeout=60s")
    kubectl("delete", "deployment", "web")
    kubectl("wait", "--for=delete", "pod", "-l=app=web", "--timeout=60s")
    stages = json.loads(kubectl("get", "stages", "-o=json"))["items"]
    assert {each["status"]["conditions"][0]["status"] for each in stages} == {"True"}


def test_volumes(kubectl: Kubectl) -> None:
    """The set `volume`: a claim gets a volume, which goes with it."""
    kubectl("apply", "-k", str(published.folder() / "volume" / "fast"))  # type: ignore[operator]
    kubectl("apply", "-f-", stdin=CLAIM)
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=60s")
    claim = json.loads(kubectl("get", "pvc", "data", "-o=json"))
    (volume,) = json.loads(kubectl("get", "pv", "-o=json"))["items"]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    kubectl("delete", "pvc", "data")
    kubectl("wait", "--for=delete", f"pv/{volume['metadata']['name']}", "--timeout=60s")


def test_broken_stage(kubectl: Kubectl) -> None:
    """A Stage that does not compile says so in its status and in its events; others go on."""
    kubectl("apply", "-f-", stdin=BROKEN)
    kubectl("wait", "--for=condition=Compiled=False", "stage/broken", "--timeout=60s")
    assert "CompileFailed" in kubectl("describe", "stage", "broken")
    kubectl("apply", "-k", str(published.folder() / "fast"))  # type: ignore[operator]
    kubectl("apply", "-f-", stdin=NODE)
    kubectl("run", "one", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
