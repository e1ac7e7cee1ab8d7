"""Claims and volumes of a server that simulates, as people see them with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectl_of, start, stop

PROGRAM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start(tmp_path_factory.mktemp("simulate-volumes"), "--simulate")
    yield running
    stop(running)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""
    return kubectl_of(simulating)


def test_claims_and_volumes(kubectl: Kubectl) -> None:
    """A claim is bound, its pod runs, and both rows show each other; the volume goes at the end."""
    kubectl("wait", "--for=create", "storageclass/standard", "--timeout=60s")
    kubectl("apply", "-f", "-", stdin=PROGRAM)
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    name = kubectl("get", "pvc", "data", "-o=jsonpath={.spec.volumeName}")
    row = kubectl("get", "pvc").splitlines()[1].split()
    assert row[:6] == ["data", "Bound", name, "1Gi", "RWO", "standard"]
    row = kubectl("get", "pv").splitlines()[1].split()
    assert row[:7] == [name, "1Gi", "RWO", "Delete", "Bound", "default/data", "standard"]
    text = kubectl("describe", "pvc", "data")
    assert "Used By:       web" in text
    assert f"Successfully provisioned volume {name}" in text
    kubectl("delete", "pvc", "data", "--wait=false")
    claim = json.loads(kubectl("get", "pvc", "data", "-o=json"))
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    kubectl("delete", "pod", "web", "--timeout=60s")
    kubectl("wait", "--for=delete", f"pv/{name}", "--timeout=60s")
    assert kubectl("get", "pv") == ""


def test_events_of_a_claim_without_a_volume(kubectl: Kubectl) -> None:
    """`kubectl describe` says why a claim waits."""
    claim = PROGRAM.partition("---")[0].replace("spec: {", "spec: {storageClassName: '', ")
    kubectl("apply", "-f", "-", stdin=claim.replace("name: data", "name: none"))
    kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pvc/none", "--timeout=60s")
    reason = "--field-selector=reason=FailedBinding"
    kubectl("wait", "--for=create", "events", reason, "--timeout=60s")
    message = "no persistent volumes available for this claim and no storage class is set"
    assert message in kubectl("describe", "pvc", "none")
