"""Loading manifests, dumping objects, and comparing dumps with files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import TestServer
from tests.testing.http_client import HttpClient
from tests.testing.test_snapshots import _definition

MAPS = "/api/v1/namespaces/default/configmaps"
MIXED = """
apiVersion: example.com/v1
kind: Cron
metadata: {name: c, namespace: team}
spec: {every: 5m}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: team}, data: {k: "1"}}
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
"""


@pytest.fixture
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


def test_load_a_directory(server: TestServer, tmp_path: Path) -> None:
    """Files in any order: namespaces and definitions come first, and are ready for the others."""
    (tmp_path / "a.yaml").write_text(MIXED)
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "crons.json").write_text(
        str(_definition()).replace("'", '"').replace("True", "true")
    )
    (tmp_path / "notes.txt").write_text("no manifest")
    loaded = server.state.load(tmp_path)
    assert [obj["kind"] for obj in loaded] == [
        "Namespace", "CustomResourceDefinition", "ConfigMap", "Cron",
    ]  # fmt: skip
    client = HttpClient(server)
    _, cron = client("GET", "/apis/example.com/v1/namespaces/team/crons/c")
    assert cron["spec"] == {"every": "5m"}
    assert client("GET", "/api/v1/namespaces/team/serviceaccounts/default")[0] == 200


def test_load_again(server: TestServer) -> None:
    """Objects that exist are replaced; a status is written too."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}"
    )
    server.state.load(f"{text}\nstatus: {{phase: Running}}\n")
    server.objects.wait_for("pod/p", "jsonpath={.status.phase}=Running", timeout=0)
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "1"}}
    server.state.load(obj)
    (stored,) = server.state.load([obj | {"data": {"k": "2"}}])
    assert stored["data"] == {"k": "2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [\n", "a text: "),
        ("metadata: {}\n", "a text: an object has no kind"),
        ("kind: ConfigMap\nmetadata: m\n", "a text: the metadata of an object are not an object"),
        ("apiVersion: x.io/v1\nkind: None\nmetadata: {name: n}\n", "no kind None of x.io/v1"),
    ],
)
def test_malformed(server: TestServer, text: str, message: str) -> None:
    """Text that is no manifest, and kinds that are not served, are reported."""
    with pytest.raises(ValueError, match=message):
        server.state.load(text)


def test_refused_object(server: TestServer, tmp_path: Path) -> None:
    """The server's refusal is raised; a missing file is an OSError."""
    with pytest.raises(StatusError, match="is invalid"):
        server.state.load({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    with pytest.raises(FileNotFoundError):
        server.state.load(tmp_path / "none.yaml")


DUMP = """\
apiVersion: v1
data:
  at: <time>
kind: ConfigMap
metadata:
  name: m
  namespace: default
---
apiVersion: v1
kind: Secret
metadata:
  generateName: s-
  name: s-<suffix>
  namespace: default
  ownerReferences:
  - apiVersion: v1
    kind: ConfigMap
    name: m
    uid: <uid>
type: Opaque
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
spec:
  clusterIP: <clusterIP>
  clusterIPs:
  - <clusterIPs>
  internalTrafficPolicy: Cluster
  ipFamilies:
  - IPv4
  ipFamilyPolicy: SingleStack
  ports:
  - port: 80
    protocol: TCP
    targetPort: 80
  sessionAffinity: None
  type: ClusterIP
status:
  loadBalancer: {}
"""


def _fill(server: TestServer) -> None:
    client = HttpClient(server)
    data = {"at": "2026-01-01T00:00:00Z"}
    _, owner = client("POST", MAPS, {"metadata": {"name": "m"}, "data": data})
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": uid}
    secret = {"metadata": {"generateName": "s-", "ownerReferences": [reference]}}
    client("POST", "/api/v1/namespaces/default/secrets", secret)
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    client("POST", "/api/v1/namespaces/default/services", service)


def test_dump(server: TestServer) -> None:
    """A dump has the objects since the start, without what differs between runs."""
    _fill(server)
    assert server.state.dump("configmap", "secret", "service") == DUMP
    assert "kind: ConfigMap" in server.state.dump()
    assert server.state.dump(namespace="kube-system") == ""
    assert "name: cluster-admin" in server.state.dump("clusterrole", everything=True)
    assert "managedFields" in server.state.dump("cm", normalise=False)


def test_snapshot_file(server: TestServer, tmp_path: Path) -> None:
    """The dump is compared with a file, which an update writes; the difference is shown."""
    path = tmp_path / "snapshots" / "state.yaml"
    with pytest.raises(AssertionError, match="does not exist; --kapiserver-update-snapshots"):
        server.state.assert_matches_snapshot(path, "cm", "service")
    _fill(server)
    server.state.assert_matches_snapshot(path, "cm", "service", update=True)
    server.state.assert_matches_snapshot(path, "cm", "service")
    server.state.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    with pytest.raises(AssertionError) as failure:
        server.state.assert_matches_snapshot(path, "cm", "service")
    assert "-data:\n-  at: <time>\n" in str(failure.value)


SUITE = """
def test_state(kube_apiserver):
    kube_apiserver.state.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    kube_apiserver.state.assert_matches_snapshot("state.yaml", "cm")
"""


def test_update_by_pytest(tmp_path: Path) -> None:
    """An option of pytest writes the file that the next run compares with."""
    (tmp_path / "test_state.py").write_text(SUITE)
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", "-q", *plugins]
    runs = (["--kapiserver-update-snapshots"], [])
    codes = [subprocess.run([*command, *options], cwd=tmp_path).returncode for options in runs]
    assert codes == [0, 0]
    assert "kind: ConfigMap" in (tmp_path / "state.yaml").read_text()
