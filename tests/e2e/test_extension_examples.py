"""The examples of extension API servers behind a host, with kubectl and autoscalers."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.aggregation.aggregationkit import Authority
from tests.clients.toolchains import FETCH, install, run_suite, suite_folder
from tests.docs.blocks import ROOT
from tests.e2e.cluster import call
from tests.e2e.extension_programs import SERVICES, register, running_extension, running_host
from tests.e2e.programs import Server, kubectls, run
from tests.storage.etcd_server import free_port

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
WARDLE = "wardle.example.com"
FLUNDERS = f"/apis/{WARDLE}/v1alpha1/namespaces/default/flunders"
API_SERVICE = f"v1alpha1.{WARDLE}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-1}
spec: {nodeName: node-1, containers: [{name: web, image: web}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
  metrics:
  - type: Pods
    pods:
      metric: {name: requests_per_second}
      target: {type: AverageValue, averageValue: "10"}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA of front proxies and serving certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """The ports of the examples, which the host must know before."""
    return {name: free_port() for name in ("metrics", "flunders", "custom")}


@pytest.fixture(scope="module")
def host(
    authority: Authority, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The host."""
    controllers = ("deployment", "replicaset", "horizontalpodautoscaling")
    flags = ("--controllers", ",".join(("*", *controllers)),
             "--horizontal-pod-autoscaler-sync-period", "1s")  # fmt: skip
    folder = tmp_path_factory.mktemp("host")
    with running_host(folder, authority, *flags, **ports) as server:
        yield server


class _Kubelet(http.server.BaseHTTPRequestHandler):
    """A node that uses half a core, and a pod that uses a quarter."""

    def do_GET(self) -> None:
        milliseconds = int(time.time() * 1000)
        seconds, of = milliseconds / 1000, 'container="web",namespace="default",pod="web-1"'
        body = (
            "# TYPE node_cpu_usage_seconds_total counter\n"
            f"node_cpu_usage_seconds_total {seconds / 2} {milliseconds}\n"
            f"node_memory_working_set_bytes {512 << 20} {milliseconds}\n"
            f"container_cpu_usage_seconds_total{{{of}}} {seconds / 4} {milliseconds}\n"
            f"container_memory_working_set_bytes{{{of}}} {64 << 20} {milliseconds}\n"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _kubelet() -> Iterator[str]:
    """The URL of the page of a node."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Kubelet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics/resource"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def measured(
    host: Server,
    authority: Authority,
    ports: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """The host with the metrics server behind it, which knows the usage of a node and a pod."""
    kubectl = kubectls()[0]
    run(kubectl, host, "create", "-f", "-", stdin=NODE)
    run(kubectl, host, "patch", "node", "node-1", "--subresource=status", "--type=merge", "-p",
        '{"status":{"allocatable":{"cpu":"2","memory":"1Gi"}}}')  # fmt: skip
    run(kubectl, host, "create", "-f", "-", stdin=POD)
    program = str(EXAMPLES / "metrics_server" / "metrics_server.py")
    folder = tmp_path_factory.mktemp("metrics")
    with _kubelet() as url:
        command = (program, f"node-1={url}", "--secure-port", str(ports["metrics"]))
        with running_extension(folder, host.kubeconfig, authority, "metrics", *command):
            register(host, authority, "metrics", "metrics.k8s.io", "v1beta1")
            while not call(host, "GET", "/apis/metrics.k8s.io/v1beta1/pods")["items"]:
                pass
            yield host
            run(kubectl, host, "delete", "apiservice", "v1beta1.metrics.k8s.io")


def test_top(measured: Server) -> None:
    """`kubectl top` shows what Prometheus' text of a kubelet says."""
    kubectl = kubectls()[0]
    nodes = run(kubectl, measured, "top", "nodes", "--no-headers").split()
    assert nodes == ["node-1", "500m", "25%", "512Mi", "50%"]
    pods = run(kubectl, measured, "top", "pods", "--containers", "--no-headers").split()
    assert pods == ["web-1", "web", "250m", "64Mi"]


def test_go_client(measured: Server) -> None:
    """The client of k8s.io/metrics reads the usage, and client-go discovers one API."""
    folder = suite_folder("go", "go")
    install(folder, *FETCH["go"])
    environment = {"GOFLAGS": "-p=1", "GOTOOLCHAIN": "local"}
    output = run_suite(
        folder,
        environment | {"KUBECONFIG": str(measured.kubeconfig)},
        *("go", "test", "-count=1", "-v", "./metrics"),
    )
    assert output.count("--- PASS: ") == 2, output


def test_custom_metrics(
    host: Server, authority: Authority, ports: dict[str, int], tmp_path: Path
) -> None:
    """An autoscaler of the host scales by a metric of an extension API server."""
    kubectl = kubectls()[0]
    program = str(EXAMPLES / "custom_metrics" / "custom_metrics.py")
    values = tmp_path / "values.json"
    values.write_text("{}")
    command = (program, str(values), "--secure-port", str(ports["custom"]))
    with running_extension(tmp_path, host.kubeconfig, authority, "custom", *command):
        register(host, authority, "custom", "custom.metrics.k8s.io", "v1beta2")
        run(kubectl, host, "create", "-f", "-", stdin=DEPLOYMENT)
        run(kubectl, host, "wait", "--for=create", "pod", "-l", "app=web", "--timeout=60s")
        pod = run(kubectl, host, "get", "pods", "-l", "app=web", "-o", "name").split("/")[1].strip()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status = {
            "phase": "Running", "startTime": now,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        }  # fmt: skip
        run(kubectl, host, "patch", "pod", pod, "--subresource=status", "--type=merge", "-p",
            json.dumps({"status": status}))  # fmt: skip
        values.write_text(json.dumps({"default": {"requests_per_second": {pod: "35"}}}))
        path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/requests_per_second"
        (item,) = call(host, "GET", path)["items"]
        assert (item["describedObject"]["name"], item["value"]) == (pod, "35")
        run(kubectl, host, "create", "-f", "-", stdin=AUTOSCALER)
        run(kubectl, host, "wait", "deployment/web", "--for=jsonpath={.spec.replicas}=4",
            "--timeout=60s")  # fmt: skip
        shown = run(kubectl, host, "get", "hpa", "web", "--no-headers").split()
        assert shown[2] == "35/10"


def test_flunders(
    host: Server, authority: Authority, ports: dict[str, int], tmp_path: Path
) -> None:
    """The steps of Kubernetes' conformance test "Should be able to support the 1.17 Sample API
    Server using the current Aggregator"."""
    kubectl = kubectls()[0]
    program = str(EXAMPLES / "flunders" / "flunders.py")
    flags = ("--secure-port", str(ports["flunders"]))
    with running_extension(tmp_path, host.kubeconfig, authority, "flunders", program, *flags):
        register(host, authority, "flunders", WARDLE, "v1alpha1", "v1beta1")
        _use_flunders(host)
        _use_api_service(host)
        assert "flunders" not in run(kubectl, host, "api-resources", "--api-group", WARDLE)


def _use_flunders(host: Server) -> None:
    kubectl = kubectls()[0]
    flunder = {
        "apiVersion": f"{WARDLE}/v1alpha1", "kind": "Flunder",
        "metadata": {"name": "first", "labels": {"sample-label": "true"}, "namespace": "default"},
    }  # fmt: skip
    assert call(host, "POST", FLUNDERS, flunder, status=201)["metadata"]["uid"]
    assert call(host, "GET", f"{FLUNDERS}/first")["metadata"]["name"] == "first"
    assert len(call(host, "GET", FLUNDERS)["items"]) == 1
    assert call(host, "DELETE", f"{FLUNDERS}/first")["status"] == "Success"
    resources = run(kubectl, host, "api-resources", "--api-group", WARDLE, "--no-headers")
    assert [line.split()[0] for line in resources.splitlines()] == ["fischers", "flunders"]
    spec = {"reference": "other", "referenceType": "Flunder"}
    run(kubectl, host, "create", "-f", "-", stdin=json.dumps({**flunder, "spec": spec}))
    new = call(host, "GET", FLUNDERS.replace("v1alpha1", "v1beta1"))["items"]
    assert new[0]["spec"]["flunderReference"] == "other"
    assert len(call(host, "GET", FLUNDERS)["items"]) == 1
    run(kubectl, host, "delete", "flunders", "-l", "sample-label=true")
    assert call(host, "GET", FLUNDERS)["items"] == []


def _use_api_service(host: Server) -> None:
    kubectl, path = kubectls()[0], f"{SERVICES}/{API_SERVICE}"
    conditions = call(host, "GET", f"{path}/status")["status"]["conditions"]
    assert [(each["type"], each["message"]) for each in conditions] == [
        ("Available", "all checks passed")
    ]
    run(kubectl, host, "patch", "apiservice", API_SERVICE, "--type=merge", "-p",
        '{"spec":{"versionPriority":400}}')  # fmt: skip
    listed = call(host, "GET", SERVICES)["items"]
    assert {each["metadata"]["name"]: each["spec"] for each in listed}[API_SERVICE][
        "versionPriority"
    ] == 400
    run(kubectl, host, "label", "apiservice", API_SERVICE, "e2e=test")
    updated = call(host, "GET", f"{path}/status")
    added = {"type": "StatusUpdated", "status": "True", "reason": "E2E", "message": "Set from test"}
    updated["status"]["conditions"].append(added)
    written = call(host, "PUT", f"{path}/status", updated)
    assert written["status"]["conditions"][1]["reason"] == "E2E"
    patch = '{"metadata":{"labels":{"patched":"true"}},"status":{"conditions":[]}}'
    run(kubectl, host, "patch", "apiservice", API_SERVICE, "--subresource=status", "--type=merge",
        "-p", patch)  # fmt: skip
    call(host, "DELETE", f"{SERVICES}?labelSelector=e2e%3Dtest")
    run(kubectl, host, "wait", "--for=delete", f"apiservice/{API_SERVICE}", "--timeout=60s")
    run(kubectl, host, "delete", "apiservice", f"v1beta1.{WARDLE}")
