"""A real kubectl changes single things: set, scale, rollout, expose, patch, nodes."""

import json

import pytest

from tests.e2e.manifests import DEPLOYMENT, POD
from tests.e2e.programs import Kubectl

REPLICA_SET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: shop-{revision}
  labels: {{app: shop, pod-template-hash: h{revision}}}
  annotations: {{deployment.kubernetes.io/revision: "{revision}"}}
  ownerReferences:
  - {{apiVersion: apps/v1, kind: Deployment, name: shop, uid: {uid}, controller: true}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: shop, pod-template-hash: h{revision}}}}}
  template:
    metadata: {{labels: {{app: shop, pod-template-hash: h{revision}}}}}
    spec:
      containers:
      - {{name: main, image: "nginx:1.2{revision}"}}
"""
"""The ReplicaSet that a deployment controller would create for a revision."""

FINISHED = {
    "status": {
        "observedGeneration": 99,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    }
}
"""The status that a deployment controller would write when all pods run."""


@pytest.fixture
def shop(kubectl: Kubectl) -> Kubectl:
    """kubectl, with the Deployment shop created."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    return kubectl


def deployment(kubectl: Kubectl) -> dict:
    """The current Deployment."""
    return json.loads(kubectl("get", "deployment", "shop", "-o", "json"))


def test_set(shop: Kubectl) -> None:
    """The set commands change image, environment, resources and service account of a template."""
    shop("create", "configmap", "settings", "--from-literal=level=high")
    shop("set", "image", "deployment/shop", "main=nginx:1.28")
    shop("set", "env", "deployment/shop", "A=1", "B=2")
    shop("set", "env", "deployment/shop", "A-")
    shop("set", "env", "deployment/shop", "--from=configmap/settings")
    shop("set", "resources", "deployment", "shop", "--limits=cpu=200m,memory=1Gi")
    shop("set", "serviceaccount", "deployment", "shop", "clerk")
    spec = deployment(shop)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == "clerk"
    assert container["image"] == "nginx:1.28"
    assert [item["name"] for item in container["env"]] == ["B", "LEVEL"]
    assert container["resources"] == {"limits": {"cpu": "200m", "memory": "1Gi"}}
    assert "B=2" in shop("set", "env", "deployment/shop", "--list")


def test_set_selector_and_subject(kubectl: Kubectl) -> None:
    """set selector changes a service, set subject a role binding."""
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    kubectl("set", "selector", "service", "web", "app=other")
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.selector.app}") == "other"
    kubectl("create", "rolebinding", "view", "--clusterrole=view", "--user=me")
    kubectl("set", "subject", "rolebinding", "view", "--group=all", "--serviceaccount=x:default")
    names = "jsonpath={.subjects[*].name}"
    assert kubectl("get", "rolebinding", "view", "-o", names) == "me all default"


def test_patches(shop: Kubectl) -> None:
    """A strategic merge patch merges containers by name; a patch that cannot be applied is
    refused."""
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "x"}]}}}}
    shop("patch", "deployment", "shop", "-p", json.dumps(side))
    side["spec"]["template"]["spec"]["containers"] = [{"$patch": "delete", "name": "main"}]
    shop("patch", "deployment", "shop", "-p", json.dumps(side))
    (container,) = deployment(shop)["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "side"
    assert shop("patch", "deployment", "shop", "-p", "{}").endswith("patched (no change)\n")
    absent = '[{"op":"remove","path":"/metadata/labels/none"}]'
    error = shop("patch", "deployment", "shop", "--type=json", "-p", absent, fails=True)
    assert "The request is invalid" in error


def test_rollout(shop: Kubectl) -> None:
    """A rollout shows its history, is undone, paused, resumed, and waited for."""
    uid = deployment(shop)["metadata"]["uid"]
    sets = [REPLICA_SET.format(revision=number, uid=uid) for number in (1, 2)]
    shop("create", "-f", "-", stdin="---".join(sets))
    history = shop("rollout", "history", "deployment/shop").splitlines()
    assert [line.split()[0] for line in history[2:4]] == ["1", "2"]
    assert "nginx:1.21" in shop("rollout", "history", "deployment/shop", "--revision=1")
    shop("rollout", "undo", "deployment/shop", "--to-revision=1")
    template = deployment(shop)["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:1.21"
    assert template["metadata"]["labels"] == {"app": "shop"}
    shop("rollout", "pause", "deployment/shop")
    assert "already paused" in shop("rollout", "pause", "deployment/shop", fails=True)
    assert "cannot rollback a paused" in shop("rollout", "undo", "deployment/shop", fails=True)
    shop("rollout", "resume", "deployment/shop")
    status = shop("rollout", "status", "deployment/shop", "--watch=false")
    assert status.startswith("Waiting for deployment spec update to be observed")


def test_statuses(newest: Kubectl) -> None:
    """A status written like a controller's is stored, and can be waited for."""
    newest("create", "-f", "-", stdin=DEPLOYMENT)
    status = ("--subresource=status", "--type=merge", "-p", json.dumps(FINISHED))
    newest("patch", "deployment", "shop", *status)
    finished = newest("rollout", "status", "deployment/shop")
    assert finished == 'deployment "shop" successfully rolled out\n'
    row = newest("get", "deployment", "shop", "--no-headers").split()
    assert row[:4] == ["shop", "2/2", "2", "2"]
    newest("create", "-f", "-", stdin=POD)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    newest("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", json.dumps(ready))
    newest("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    newest("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=60s")
    newest("wait", "--for=create", "pod/web", "--timeout=60s")
    timeout = newest("wait", "--for=condition=Never", "pod/web", "--timeout=0s", fails=True)
    assert "condition not met" in timeout


def test_expose_and_autoscale(shop: Kubectl) -> None:
    """expose creates Services for deployments and pods, autoscale an autoscaler, run a pod."""
    shop("expose", "deployment", "shop", "--port=80", "--target-port=8080")
    selector = "jsonpath={.spec.selector.app}:{.spec.ports[0].targetPort}"
    assert shop("get", "service", "shop", "-o", selector) == "shop:8080"
    shop("run", "one", "--image=nginx", "--restart=Never", "--env=A=1", "--port=80", "--expose")
    assert shop("get", "service", "one", "-o", "jsonpath={.spec.selector.run}") == "one"
    shop("autoscale", "deployment", "shop", "--min=1", "--max=3", "--cpu-percent=50")
    row = shop("get", "hpa", "--no-headers").split()
    assert row[:2] == ["shop", "Deployment/shop"]


def test_nodes(kubectl: Kubectl, namespace: str) -> None:
    """A node is labelled, tainted, cordoned and drained; pods without a controller need --force."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": namespace}}
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    kubectl("taint", "node", namespace, "busy=yes:NoSchedule")
    taints = "jsonpath={.spec.taints[*].key}"
    assert "busy" in kubectl("get", "node", namespace, "-o", taints).split()
    kubectl("taint", "node", namespace, "busy-")
    kubectl("cordon", namespace)
    assert "SchedulingDisabled" in kubectl("get", "node", namespace)
    kubectl("uncordon", namespace)
    bound = POD.replace(
        "spec:", f"spec:\n  nodeName: {namespace}\n  terminationGracePeriodSeconds: 0"
    )
    kubectl("create", "-f", "-", stdin=bound)
    assert "--force" in kubectl("drain", namespace, "--timeout=5s", fails=True)
    kubectl("drain", namespace, "--force", "--timeout=60s")
    assert "not found" in kubectl("get", "pod", "web", fails=True)
    kubectl("delete", "node", namespace)
