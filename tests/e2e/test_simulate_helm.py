"""A real helm waits for workloads that a simulating server runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import generations_of
from tests.e2e.programs import Server, kubectls, run, start, stop

CHART = "{apiVersion: v2, name: shop, version: 0.1.0}"
TEMPLATE = """
{{- define "pod" }}
metadata: {labels: {app: {{ .name }}}}
spec:
  containers: [{name: main, image: {{ .image }}}]
{{- end }}
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template: {{- include "pod" (dict "name" "web" "image" .Values.image) | nindent 4 }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: db}}
  template: {{- include "pod" (dict "name" "db" "image" .Values.image) | nindent 4 }}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: uploads}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate-{{ .Release.Revision }}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: {{ .Values.image }}}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start(tmp_path_factory.mktemp("simulate-helm"), "--simulate")
    yield running
    stop(running)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart with a Deployment, a StatefulSet with volumes, a claim and a Job."""
    folder = tmp_path_factory.mktemp("chart")
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text(CHART)
    (folder / "values.yaml").write_text("{image: 'shop:1', replicas: 2}")
    (folder / "templates" / "all.yaml").write_text(TEMPLATE)
    return folder


@pytest.mark.parametrize("program", generations_of("helm"))
def test_helm_waits_for_workloads(server: Server, chart: Path, program: Path) -> None:
    """Install, upgrade and rollback return when all pods of the revision are ready, its claims are
    bound and its Job is complete; uninstall returns when all pods are gone."""

    def helm(*arguments: str) -> str:
        return run(program, server, *arguments, "--wait", "--timeout", "60s")

    def images() -> list[str]:
        selector = "-l=app in (web,db)"
        pods = json.loads(run(kubectls()[0], server, "get", "pods", selector, "-o=json"))["items"]
        living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        for pod in living:
            ready = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
            assert [each["status"] for each in ready] == ["True"]
        return sorted(pod["spec"]["containers"][0]["image"] for pod in living)

    helm("install", "shop", str(chart), "--wait-for-jobs")
    claim = json.loads(run(kubectls()[0], server, "get", "pvc", "uploads", "-o=json"))
    assert claim["status"]["phase"] == "Bound"
    assert images() == ["shop:1"] * 4
    helm("upgrade", "shop", str(chart), "--set", "image=shop:2,replicas=3", "--wait-for-jobs")
    assert images() == ["shop:2"] * 6
    helm("rollback", "shop", "1")
    assert images() == ["shop:1"] * 4
    helm("uninstall", "shop")
    assert images() == []
