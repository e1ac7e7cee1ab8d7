"""A real kubectl reads in every output form and deletes in every way; requests that need a kubelet
fail with a clear message."""

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.manifests import DEPLOYMENT, POD
from tests.e2e.programs import Kubectl, Server

OWNED = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: child
  ownerReferences:
  - {{apiVersion: apps/v1, kind: Deployment, name: shop, uid: {uid}, blockOwnerDeletion: true}}
"""


@pytest.fixture
def maps(kubectl: Kubectl) -> Kubectl:
    """kubectl, with three ConfigMaps in two sets."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"set": label}},
            "data": {"rank": rank},
        }
        for name, label, rank in (("a", "x", "3"), ("b", "x", "1"), ("c", "y", "2"))
    ]
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    kubectl("create", "-f", "-", stdin=json.dumps(document))
    return kubectl


OUTPUTS = [
    (("-l", "set=x", "-o", "name"), "configmap/a\nconfigmap/b\n"),
    (("-l", "set in (x,y),set!=x", "-o", "name"), "configmap/c\n"),
    (("--field-selector=metadata.name=b", "-o", "jsonpath={.items[*].data.rank}"), "1"),
    (("-l", "set", "--sort-by=.data.rank", "-o", "jsonpath={.items[*].metadata.name}"), "b c a"),
    (("-l", "set", "--chunk-size=1", "-o", "go-template={{len .items}}"), "3"),
    (
        ("-l", "set=x", "-o", "custom-columns=N:.metadata.name,R:.data.rank"),
        r"N +R\na +3\nb +1\n",
    ),
    (("-l", "set=y", "-L", "set", "--no-headers"), r"c +1 +\d+s +y\n"),
    (("-l", "set=y", "--show-labels", "--no-headers"), r"c +1 +\d+s +set=y\n"),
    (("a", "c", "-o", "name"), "configmap/a\nconfigmap/c\n"),
    (("none", "--ignore-not-found"), ""),
]


def test_outputs(maps: Kubectl) -> None:
    """get selects, sorts, pages and prints in every form."""
    for arguments, expected in OUTPUTS:
        output = maps("get", "configmaps", *arguments)
        assert output == expected or re.fullmatch(expected, output), arguments


def test_all_namespaces(maps: Kubectl, namespace: str) -> None:
    """get -A has a column with the namespace; several kinds are printed apart."""
    rows = [line.split() for line in maps("get", "configmaps,secrets", "-A").splitlines()]
    assert [namespace, "configmap/a", "1"] in [row[:3] for row in rows]


def test_managed_fields(newest: Kubectl) -> None:
    """managedFields are shown only with --show-managed-fields."""
    newest("create", "configmap", "a", "--from-literal=b=c")
    get = ("get", "configmap", "a", "-o", "yaml")
    assert "managedFields" not in newest(*get)
    assert "manager: kubectl-create" in newest(*get, "--show-managed-fields")


COMMANDS = {
    ("explain", "cronjob.spec.jobTemplate"): "CronJob",
    ("explain", "hpa.spec", "--api-version=autoscaling/v1"): "targetCPUUtilizationPercentage",
    ("api-resources", "--api-group=apps", "-o", "name"): "deployments.apps",
    ("api-resources", "--namespaced=false"): "Namespace",
    ("api-versions",): "apps/v1",
    ("cluster-info",): "is running at",
    ("version", "-o", "json"): "serverVersion",
    ("auth", "can-i", "create", "pods"): "yes",
    ("auth", "can-i", "--list"): "[*]",
    ("config", "view", "--minify"): "kapiserver",
}


def test_server_information(kubectl: Kubectl) -> None:
    """Commands about versions, resources and permissions work."""
    for arguments, expected in COMMANDS.items():
        assert expected in kubectl(*arguments), arguments


def test_who_am_i(newest: Kubectl) -> None:
    """auth whoami prints the user."""
    assert "system:masters" in newest("auth", "whoami")


def test_reconcile(kubectl: Kubectl, namespace: str) -> None:
    """auth reconcile creates a role and adds missing rules."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    role["rules"][0]["verbs"].append("list")
    kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    verbs = "jsonpath={.rules[*].verbs}"
    assert "list" in kubectl("get", "role", "reader", "-o", verbs)


@pytest.mark.parametrize("policy", ["background", "foreground", "orphan"])
def test_cascades(kubectl: Kubectl, newest: Kubectl, policy: str) -> None:
    """With --cascade dependents are deleted after their owner, before it, or not at all."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    uid = kubectl("get", "deployment", "shop", "-o", "jsonpath={.metadata.uid}")
    kubectl("create", "-f", "-", stdin=OWNED.format(uid=uid))
    kubectl("delete", "deployment", "shop", f"--cascade={policy}")
    if policy == "orphan":
        owners = "jsonpath={.metadata.ownerReferences}"
        assert kubectl("get", "configmap", "child", "-o", owners) == ""
    else:
        newest("wait", "--for=delete", "configmap/child", "--timeout=60s")


def test_delete_all(maps: Kubectl) -> None:
    """delete removes a selection, then all objects."""
    assert maps("delete", "configmaps", "-l", "set=x").count("deleted") == 2
    maps("delete", "configmaps", "--all")
    assert maps("get", "configmaps", "-l", "set", "-o", "name") == ""


def test_delete_namespace(kubectl: Kubectl, namespace: str) -> None:
    """delete namespace returns when the namespace and its objects are deleted."""
    kubectl("create", "-f", "-", stdin=f"{POD}---{DEPLOYMENT}")
    kubectl("create", "configmap", "held")
    kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert "not found" in kubectl("get", "namespace", namespace, fails=True)
    assert kubectl("get", "all,configmaps", "-o", "name") == ""


NEEDS_KUBELET = {
    ("top", "node"): "Metrics API not available",
    ("logs", "web"): "no preferred addresses found",
    ("exec", "web", "--", "ls"): "no preferred addresses found",
    ("attach", "web"): "no preferred addresses found",
    ("cp", "web:/etc/passwd", "{folder}/passwd"): "no preferred addresses found",
    ("port-forward", "pod/web", ":80"): "pod is not running",
}


def test_no_kubelet(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    """Commands that need a running pod fail because its node has no address of a kubelet."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": namespace}}
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    bound = POD.replace("spec:", f"spec:\n  nodeName: {namespace}")
    kubectl("create", "-f", "-", stdin=bound)
    for arguments, expected in NEEDS_KUBELET.items():
        called = [argument.format(folder=tmp_path) for argument in arguments]
        assert expected in kubectl(*called, fails=True), arguments


@contextmanager
def proxy(server: Server, program: Path, *arguments: str) -> Iterator[str]:
    """A running `kubectl proxy`, and the first line of its output."""
    home = {"KUBECONFIG": str(server.kubeconfig), "HOME": str(server.folder)}
    command = [program, "proxy", *arguments]
    with subprocess.Popen(command, env=home, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def test_proxy(server: Server, kubectl_program: Path, tmp_path: Path) -> None:
    """proxy serves the API on a port of its choice, and on a socket."""
    with proxy(server, kubectl_program, "--port=0") as line:
        address = line.split()[-1]
        with urllib.request.urlopen(f"http://{address}/version", timeout=60) as response:
            assert json.load(response)["major"] == "1"
    path = str(tmp_path / "socket")
    with (
        proxy(server, kubectl_program, f"--unix-socket={path}"),
        socket.socket(socket.AF_UNIX) as at,
    ):
        at.settimeout(60)
        at.connect(path)
        at.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        with at.makefile("rb") as response:
            assert response.read().endswith(b"\r\n\r\nok")
