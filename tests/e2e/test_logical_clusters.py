"""Logical clusters from outside: the commands, kubectl and helm in clusters, a restart, and several
servers of one store."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.every_kind import Api
from tests.e2e.programs import ROOT, generations, kubectls, run, start, stop
from tests.e2e.test_helm import CHART, TEMPLATE
from tests.storage.etcd_server import running_member
from tests.storage.postgresql_server import Server as PostgresqlServer
from tests.storage.postgresql_server import binaries

pytestmark = pytest.mark.slow

MANY = 60
SECONDS = 60.0

CLUSTER = """
apiVersion: clusters.kapiserver.dev/v1
kind: Cluster
metadata: {{name: {name}}}
spec: {spec}
---
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: shirts, singular: shirt, kind: Shirt}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {color: {type: string, description: The color of the shirt.}}
"""

SHIRT = """
apiVersion: stable.example.com/v1
kind: Shirt
metadata: {name: one}
spec: {color: blue}
"""


@pytest.fixture(params=["sqlite", "etcd", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The flags of a store."""
    if request.param == "sqlite":
        yield []
    elif request.param == "etcd":
        with running_member() as member:
            yield ["--storage", f"etcd:{member.url}"]
    else:
        if binaries() is None:
            pytest.skip("no PostgreSQL")
        server = PostgresqlServer()
        server.start()
        try:
            yield ["--storage", server.url]
        finally:
            server.remove()


class Walk:
    """A server with logical clusters, and its clients."""

    def __init__(self, folder: Path, store: Sequence[str]) -> None:
        folder.mkdir()
        self._flags = ["--enable-logical-clusters", *store]
        self._folder = folder
        self.server = start(folder, *self._flags)

    def restart(self) -> None:
        """Stop the server, and start it again."""
        assert stop(self.server) == 0
        self.server = start(self._folder, *self._flags)

    def clusters(self, *arguments: str) -> str:
        """Run `kapiserver clusters`, and return what it prints."""
        command = [sys.executable, "-m", "kapiserver", "clusters", *arguments]
        kubeconfig = ["--kubeconfig", str(self.server.kubeconfig)]
        completed = subprocess.run(
            [*command, *kubeconfig], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    def kubectl(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run kubectl in the management cluster."""
        return run(kubectls()[0], self.server, *arguments, stdin=stdin, fails=fails)

    def client(self, name: str, program: str = "kubectl") -> Callable[..., str]:
        """Return what runs kubectl, or helm, in a cluster."""
        file = self._folder / f"{name}.kubeconfig"
        file.write_text(self.clusters("kubeconfig", name))

        def call(*arguments: str, stdin: str = "", fails: bool = False) -> str:
            path = generations(program)[0]
            return run(
                path, self.server, *arguments, stdin=stdin, fails=fails, KUBECONFIG=str(file)
            )

        return call


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which runs programs."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline


@pytest.mark.skipif(not kubectls() or not generations("helm"), reason="no kubectl or no helm")
def test_walk(tmp_path: Path, store: list[str]) -> None:
    """What a product does with clusters works from outside, over each store."""
    walk = Walk(tmp_path / "server", store)
    try:
        check_commands(walk)
        check_objects(walk)
        check_kubectl_and_helm(walk, tmp_path / "chart")
        check_many(walk)
        check_restart(walk)
    finally:
        stop(walk.server)


def check_commands(walk: Walk) -> None:
    created = walk.clusters("create", "acme")
    assert re.search(r"server: https://127\.0\.0\.1:\d+/clusters/acme\n", created)
    walk.clusters("create", "payments.acme", "--max-objects", "5")
    rows = [line.split() for line in walk.clusters("list").splitlines()]
    assert [(row[0], row[1]) for row in rows] == [
        ("NAME", "PHASE"),
        ("acme", "Ready"),
        ("payments.acme", "Ready"),
    ]
    assert walk.clusters("kubeconfig", "acme") == created


def check_objects(walk: Walk) -> None:
    walk.kubectl("apply", "-f", "-", stdin=CLUSTER.format(name="initech", spec="{}"))
    walk.kubectl("wait", "--for=condition=Ready", "cluster/initech")
    tree = json.loads(walk.kubectl("get", "cluster", "initech", "-o", "json"))
    assert tree["metadata"]["finalizers"] == ["clusters.kapiserver.dev/objects"]
    assert tree["status"]["phase"] == "Ready"
    assert "quota" in walk.kubectl("explain", "cluster.spec")
    walk.kubectl("delete", "cluster", "initech", "--wait")
    assert "NotFound" in walk.kubectl("get", "cluster", "initech", fails=True)
    payments = walk.client("payments.acme")
    for number in range(5):
        payments("create", "configmap", f"m{number}")
    assert "exceeded quota" in payments("create", "configmap", "m5", fails=True)


def check_kubectl_and_helm(walk: Walk, chart: Path) -> None:
    acme, payments = walk.client("acme"), walk.client("payments.acme")
    acme("apply", "-f", "-", stdin=DEFINITION)
    acme("wait", "--for=condition=Established", "crd/shirts.stable.example.com")
    acme("apply", "-f", "-", stdin=SHIRT)
    assert "The color of the shirt." in acme("explain", "shirt.spec.color")
    assert acme("get", "shirts", "-o", "jsonpath={.items[*].spec.color}") == "blue"
    assert "the server doesn't have a resource type" in payments("get", "shirts", fails=True)
    assert "the server doesn't have a resource type" in walk.kubectl("get", "shirts", fails=True)
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(CHART)
    (chart / "values.yaml").write_text("{greeting: hello, replicas: 1, deployed: true}")
    (chart / "templates" / "all.yaml").write_text(TEMPLATE)
    helm = walk.client("acme", "helm")
    helm("install", "one", str(chart))
    helm("upgrade", "one", str(chart), "--set", "greeting=hi")
    assert acme("get", "configmap", "one-settings", "-o", "jsonpath={.data.greeting}") == "hi"
    assert [each["name"] for each in json.loads(helm("list", "-o", "json"))] == ["one"]
    assert json.loads(walk.client("payments.acme", "helm")("list", "-o", "json")) == []
    helm("uninstall", "one")


def check_many(walk: Walk) -> None:
    names = [f"n{number:02}" for number in range(MANY)]
    walk.kubectl(
        "create", "-f", "-", stdin="".join(CLUSTER.format(name=name, spec="{}") for name in names)
    )
    walk.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"cluster/{n}" for n in names))
    with closing(Api(walk.server)) as api:
        for name in names:
            assert api("GET", f"/clusters/{name}/api/v1/namespaces/default")["kind"] == "Namespace"
    text = walk.kubectl("get", "--raw", "/metrics")
    opened = re.search(r"^kapiserver_logical_clusters_open (\d+)", text, re.MULTILINE)
    assert opened is not None
    assert int(opened[1]) >= MANY
    walk.kubectl("delete", "cluster", "--wait", *names)
    assert len(walk.clusters("list").splitlines()) == 3


def check_restart(walk: Walk) -> None:
    acme = walk.client("acme")
    token = acme("create", "token", "default").strip()
    walk.restart()
    acme = walk.client("acme")
    assert acme("get", "shirts", "-o", "jsonpath={.items[*].spec.color}") == "blue"
    assert "default:default" in acme("auth", "whoami", "--token", token)
    assert "deleted" in walk.clusters("delete", "payments.acme")
    assert len(walk.clusters("list").splitlines()) == 2


@pytest.mark.parametrize("store", ["etcd", "postgresql"], indirect=True)
def test_two_servers(tmp_path: Path, store: list[str]) -> None:
    """A cluster that one server creates is served by the other at once, with the same users; one
    that it deletes is gone there. The controllers of a cluster run in one of them."""
    one, two = Walk(tmp_path / "one", store), Walk(tmp_path / "two", store)
    try:
        one.clusters("create", "acme")
        first, second = one.client("acme"), two.client("acme")
        first("create", "namespace", "n")
        eventually(lambda: "default" in second("get", "serviceaccounts", "-n", "n"))
        lease = ("lease", "-n", "kube-system", "kapiserver-controllers")
        holder = ("get", *lease, "-o", "jsonpath={.spec.holderIdentity}")
        leader = first(*holder)
        assert leader
        second("create", "namespace", "m")
        eventually(lambda: "default" in first("get", "serviceaccounts", "-n", "m"))
        assert second(*holder) == leader
        second("apply", "-f", "-", stdin=DEFINITION)
        first("wait", "--for=condition=Established", "crd/shirts.stable.example.com")
        first("apply", "-f", "-", stdin=SHIRT)
        assert second("get", "shirts", "-o", "name") == "shirt.stable.example.com/one\n"
        two.clusters("delete", "acme")
        assert "acme" not in one.clusters("list")
        first("get", "namespaces", fails=True)
    finally:
        for walk in (one, two):
            stop(walk.server)
