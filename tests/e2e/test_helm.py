"""A real helm installs, upgrades, rolls back and uninstalls a chart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import Kubectl, Server, run

Helm = Callable[..., str]

CHART = """
apiVersion: v2
name: shop
version: 0.1.0
appVersion: "1"
"""

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-settings}
data:
  greeting: {{ .Values.greeting | quote }}
  revision: {{ .Release.Revision | quote }}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {app: shop}
  ports: [{port: 80}]
{{- if .Values.deployed }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: main, image: nginx}]
{{- end }}
"""


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart with a ConfigMap, a Service and, unless disabled, a Deployment."""
    folder = tmp_path_factory.mktemp("chart")
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text(CHART)
    (folder / "values.yaml").write_text("{greeting: hello, replicas: 1, deployed: true}")
    (folder / "templates" / "all.yaml").write_text(TEMPLATE)
    (folder / "templates" / "NOTES.txt").write_text("Say {{ .Values.greeting }}.\n")
    return folder


@pytest.fixture
def helm(helm_program: Path, server: Server, namespace: str) -> Helm:
    """`helm(*arguments, fails=False)`, in the test's namespace."""

    def call(*arguments: str, fails: bool = False) -> str:
        return run(helm_program, server, "-n", namespace, *arguments, fails=fails)

    return call


def test_life_of_a_release(helm: Helm, newest: Kubectl, chart: Path) -> None:
    """A release is installed, upgraded, rolled back, listed and uninstalled."""
    assert "Say hello." in helm("install", "one", str(chart))
    data = ("get", "configmap", "one-settings", "-o", "jsonpath={.data.greeting}{.data.revision}")
    assert newest(*data) == "hello1"
    helm("upgrade", "one", str(chart), "--set", "greeting=hi", "--set", "replicas=3")
    assert newest(*data) == "hi2"
    replicas = ("get", "deployment", "one", "-o", "jsonpath={.spec.replicas}")
    assert newest(*replicas) == "3"
    helm("rollback", "one", "1")
    assert (newest(*data), newest(*replicas)) == ("hello1", "1")
    history = json.loads(helm("history", "one", "-o", "json"))
    statuses = [(entry["revision"], entry["status"]) for entry in history]
    assert statuses == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    (releases,) = json.loads(helm("list", "-o", "json"))
    assert (releases["name"], releases["chart"], releases["status"]) == (
        "one",
        "shop-0.1.0",
        "deployed",
    )
    assert "greeting: hi" in helm("get", "values", "one", "--revision", "2")
    assert "kind: Deployment" in helm("get", "manifest", "one")
    assert "STATUS: deployed" in helm("status", "one")
    revisions = newest("get", "secrets", "-l", "owner=helm,name=one", "-o", "name").splitlines()
    assert revisions == [f"secret/sh.helm.release.v1.one.v{number}" for number in (1, 2, 3)]
    assert "uninstalled" in helm("uninstall", "one")
    assert newest("get", "secrets,deployments,services", "-o", "name") == ""
    assert "not found" in helm("status", "one", fails=True)


@pytest.mark.slow
def test_waits(helm: Helm, newest: Kubectl, chart: Path) -> None:
    """`--wait` succeeds for objects that need no controller, and fails for a Deployment, which
    nothing runs here."""
    wait_flags = ("--wait", "--timeout", "20s")
    helm("upgrade", "--install", "one", str(chart), "--set", "deployed=false", *wait_flags)
    helm("uninstall", "one", *wait_flags)
    assert newest("get", "configmap", "one-settings", "--ignore-not-found") == ""
    helm("install", "two", str(chart), "--wait", "--timeout", "1s", fails=True)
    (releases,) = json.loads(helm("list", "--all-namespaces", "--failed", "-o", "json"))
    assert releases["status"] == "failed"
    helm("uninstall", "two")


@pytest.mark.slow
def test_template_and_dry_run(helm: Helm, newest: Kubectl, chart: Path) -> None:
    """A rendered chart can be applied; a dry run stores nothing."""
    rendered = helm("template", "one", str(chart))
    newest("apply", "-f", "-", stdin=rendered)
    newest("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=rendered)
    assert "Say hello." in helm("install", "two", str(chart), "--dry-run")
    assert newest("get", "configmap", "two-settings", "--ignore-not-found") == ""
    error = helm("install", "one", str(chart), fails=True)
    assert "invalid ownership metadata" in error or "conflict" in error
