"""A real, unmodified kubectl in daily use."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.manifests import DEPLOYMENT, POD
from tests.e2e.programs import Kubectl, Server, kubectls, run


def test_oldest_kubectl(server: Server, namespace: str) -> None:
    """kubectl 1.20 creates with validation, applies, gets and deletes."""
    oldest = kubectls()[-1]
    for verb, participle in (("create", "created"), ("apply", "configured"), ("delete", "deleted")):
        output = run(oldest, server, "-n", namespace, verb, "-f", "-", stdin=DEPLOYMENT)
        assert output.startswith("deployment.apps")
        assert participle in output
        run(oldest, server, "-n", namespace, "get", "deployments,pods", "-o", "wide")


def test_create_get_in_every_output(kubectl: Kubectl) -> None:
    """A created pod is shown as a table, wide, as JSON, as YAML, by name and by JSONPath."""
    assert kubectl("create", "-f", "-", stdin=POD) == "pod/web created\n"
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]
    wide = kubectl("get", "pods", "-o", "wide").splitlines()[0]
    assert wide.split()[5:7] == ["IP", "NODE"]
    assert (
        json.loads(kubectl("get", "pod", "web", "-o", "json"))["status"]["qosClass"] == "Burstable"
    )
    assert yaml.safe_load(kubectl("get", "pod", "web", "-o", "yaml"))["kind"] == "Pod"
    assert kubectl("get", "pods", "-o", "name") == "pod/web\n"
    assert (
        kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "nginx:1.27"
    )


def test_create_is_validated(kubectl: Kubectl) -> None:
    """An unknown field is refused before the create, and an invalid value by it, with the field's
    name."""
    unknown = kubectl("create", "-f", "-", stdin=POD.replace("image:", "imagee:"), fails=True)
    assert re.search(r'unknown field ".*imagee"', unknown)
    broken = kubectl("create", "-f", "-", stdin=POD.replace("name: web", "name: Web_"), fails=True)
    assert 'The Pod "Web_" is invalid' in broken
    error = kubectl("create", "-f", "-", stdin=POD) and kubectl(
        "create", "-f", "-", stdin=POD, fails=True
    )
    assert 'pods "web" already exists' in error


def test_describe(kubectl: Kubectl) -> None:
    """describe shows a pod, a deployment, a config map, a secret, a service account."""
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl("create", "configmap", "settings", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "keys", "--from-literal=b=2")
    assert re.search(r"Status:\s+Pending", kubectl("describe", "pod", "web"))
    assert re.search(r"Replicas:\s+2 desired", kubectl("describe", "deployment", "shop"))
    assert "a:\n----\n1\n" in kubectl("describe", "configmap", "settings")
    assert re.search(r"b:\s+1 bytes", kubectl("describe", "secret", "keys"))
    assert "default" in kubectl("describe", "serviceaccount", "default")


def test_label_annotate_patch(kubectl: Kubectl) -> None:
    """Labels and annotations are added and removed; all three patch types change an object."""
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("label", "pod", "web", "tier=front")
    assert kubectl("get", "pods", "-l", "tier=front", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pods", "-l", "tier!=front", "-o", "name") == ""
    assert "already has a value" in kubectl("label", "pod", "web", "tier=back", fails=True)
    kubectl("label", "pod", "web", "tier-")
    kubectl("annotate", "pod", "web", "note=one")
    kubectl("annotate", "--overwrite", "pod", "web", "note=two")
    patches = (
        ("strategic", '{"spec":{"containers":[{"name":"main","image":"nginx:1.28"}]}}'),
        ("merge", '{"metadata":{"labels":{"merge":"yes"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/json","value":"yes"}]'),
    )
    for kind, patch in patches:
        kubectl("patch", "pod", "web", "--type", kind, "-p", patch)
    pod = json.loads(kubectl("get", "pod", "web", "-o", "json"))
    assert pod["metadata"]["labels"] == {"app": "web", "json": "yes", "merge": "yes"}
    assert pod["metadata"]["annotations"]["note"] == "two"
    assert [container["image"] for container in pod["spec"]["containers"]] == ["nginx:1.28"]


def test_edit_by_replace(kubectl: Kubectl) -> None:
    """replace accepts the output of get; a stale copy is refused."""
    kubectl("create", "configmap", "settings", "--from-literal=a=1")
    stale_text = kubectl("get", "configmap", "settings", "-o", "yaml")
    kubectl("replace", "-f", "-", stdin=stale_text.replace('a: "1"', 'a: "2"'))
    conflict = kubectl(
        "replace", "-f", "-", stdin=stale_text.replace('a: "1"', 'a: "3"'), fails=True
    )
    assert "the object has been modified" in conflict
    assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.a}") == "2"


def test_apply(kubectl: Kubectl) -> None:
    """Client-side apply creates, keeps and changes objects, with a strategic merge patch."""
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/shop created\n"
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/shop unchanged\n"
    changed = DEPLOYMENT.replace("1.27", "1.28")
    assert kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/shop configured\n"
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deployment", "shop", "-o", image) == "nginx:1.28"


def test_scale_and_restart(kubectl: Kubectl) -> None:
    """scale goes through the scale subresource, rollout restart annotates the template; both
    raise the generation."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl("scale", "deployment", "shop", "--replicas=5")
    kubectl("rollout", "restart", "deployment", "shop")
    deployment = json.loads(kubectl("get", "deployment", "shop", "-o", "json"))
    assert deployment["spec"]["replicas"] == 5
    assert (
        "kubectl.kubernetes.io/restartedAt"
        in deployment["spec"]["template"]["metadata"]["annotations"]
    )
    assert deployment["metadata"]["generation"] == 3
    row = kubectl("get", "deployments").splitlines()[1].split()
    assert row[:4] == ["shop", "0/5", "0", "0"]
    error = kubectl(
        "scale", "deployment", "shop", "--replicas=1", "--current-replicas=9", fails=True
    )
    assert "Expected replicas to be 9" in error


def test_delete(kubectl: Kubectl) -> None:
    """delete removes an object and a selection by label, and reports an absent one."""
    for name in ("a", "b", "c"):
        kubectl("create", "configmap", name)
        kubectl("label", "configmap", name, "set=one")
    assert "deleted" in kubectl("delete", "configmap", "a")
    kubectl("delete", "configmaps", "-l", "set=one")
    assert "set=one" not in kubectl("get", "configmaps", "--show-labels")
    assert "not found" in kubectl("delete", "configmap", "a", fails=True)


def test_chunks(kubectl: Kubectl) -> None:
    """A list in chunks of two is complete and in order."""
    names = [f"item-{number}" for number in range(7)]
    for name in names:
        kubectl("create", "configmap", name)
    lines = kubectl("get", "configmaps", "--chunk-size=2", "-o", "name").splitlines()
    assert [item for item in lines if "item" in item] == [f"configmap/{name}" for name in names]


def test_field_selectors_and_sorting(kubectl: Kubectl) -> None:
    """Field selectors filter, an unknown one is an error, --sort-by sorts."""
    kubectl("create", "-f", "-", stdin=POD)
    assert kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name")
    assert kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == ""
    unknown = kubectl("get", "pods", "--field-selector", "spec.colour=red", fails=True)
    assert "field label not supported: spec.colour" in unknown
    kubectl("get", "pods", "--sort-by", ".metadata.name")


def test_watch(server: Server, kubectl: Kubectl, kubectl_program: Path, namespace: str) -> None:
    """get --watch prints the existing objects, then changes."""
    kubectl("create", "configmap", "first")
    command = [kubectl_program, "--kubeconfig", server.kubeconfig, "-n", namespace]
    events = ["--watch", "--no-headers", "--output-watch-events"]
    only = ["--field-selector", "metadata.name!=kube-root-ca.crt"]
    watching = subprocess.Popen(
        [*command, "get", "configmaps", *only, *events],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    with watching.stdout as lines:
        assert lines.readline().split()[:2] == ["ADDED", "first"]
        kubectl("create", "configmap", "second")
        assert lines.readline().split()[:2] == ["ADDED", "second"]
        kubectl("label", "configmap", "second", "a=b")
        assert lines.readline().split()[:2] == ["MODIFIED", "second"]
        kubectl("delete", "configmap", "first")
        assert lines.readline().split()[:2] == ["DELETED", "first"]
        watching.terminate()
    watching.wait()


@pytest.mark.parametrize(
    "arguments",
    [
        ("api-resources",),
        ("api-versions",),
        ("version",),
        ("cluster-info",),
        ("explain", "pod.spec.containers"),
        ("explain", "deployment", "--recursive"),
        ("get", "all"),
        ("get", "pods,configmaps,secrets", "-A"),
        ("get", "--raw", "/readyz?verbose"),
    ],
    ids=" ".join,
)
def test_server_information(kubectl: Kubectl, arguments: tuple[str, ...]) -> None:
    """Commands that print information about the server work."""
    kubectl(*arguments)
