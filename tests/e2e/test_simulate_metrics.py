"""`kubectl top` and `kubectl autoscale` against `kapiserver serve --simulate`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectl_of, kubectls, start, stop

USAGE = "simulation.kapiserver.dev/cpu-usage"


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a simulated node, whose autoscalers work every second."""
    running = start(
        tmp_path_factory.mktemp("metrics"),
        "--simulate",
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    )
    yield running
    stop(running)


@pytest.fixture(params=kubectls(), ids=lambda program: program.parent.name)
def any_kubectl(request: pytest.FixtureRequest, simulating: Server) -> Kubectl:
    """Each kubectl, with that server."""
    return kubectl_of(simulating, request.param)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""
    return kubectl_of(simulating)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_top(any_kubectl: Kubectl) -> None:
    """`kubectl top` shows what annotations and requests say."""
    overrides = (
        '{"spec": {"containers": [{"name": "one", "image": "nginx", "resources": '
        '{"requests": {"cpu": "1", "memory": "1Gi"}}}, {"name": "two", "image": "nginx"}]}}'
    )
    any_kubectl("run", "one", "--image=nginx", f"--overrides={overrides}", "--labels=app=top")
    any_kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    assert rows(any_kubectl("top", "pods", "-l=app=top")) == [
        ["NAME", "CPU(cores)", "MEMORY(bytes)"],
        ["one", "101m", "522Mi"],
    ]
    any_kubectl("annotate", "pod", "one", f"{USAGE}.one=750m")
    assert rows(any_kubectl("top", "pod", "one", "--containers", "--no-headers")) == [
        ["one", "one", "750m", "512Mi"],
        ["one", "two", "1m", "10Mi"],
    ]
    assert rows(any_kubectl("top", "pods", "-A"))[1:] == [["default", "one", "751m", "522Mi"]]
    assert rows(any_kubectl("top", "nodes"))[1:] == [["simulated-0", "751m", "2%", "522Mi", "0%"]]
    error = any_kubectl("top", "pod", "none", fails=True)
    assert 'podmetrics.metrics.k8s.io "default/none" not found' in error
    any_kubectl("delete", "pod", "one", "--timeout=60s")


def test_autoscale(kubectl: Kubectl) -> None:
    """A Deployment is scaled up and down by the CPU that its pods use."""
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("set", "resources", "deployment", "web", "--requests=cpu=1")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("autoscale", "deployment", "web", "--cpu-percent=50", "--min=1", "--max=3")
    shown = "jsonpath={.status.currentMetrics[0].resource.current.averageUtilization}"
    kubectl("wait", f"--for={shown}=10", "hpa/web", "--timeout=60s")
    table = rows(kubectl("get", "hpa", "web"))
    assert table[0] == ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "AGE"]
    assert table[1][:-1] == ["web", "Deployment/web", "cpu:", "10%/50%", "1", "3", "1"]
    kubectl("annotate", "pods", "-l=app=web", f"{USAGE}=100%")
    kubectl("wait", "--for=jsonpath={.spec.replicas}=2", "deployment/web", "--timeout=60s")
    described = kubectl("describe", "hpa", "web")
    assert "SuccessfulRescale" in described
    reason = "cpu resource utilization (percentage of request) above target"
    assert f"New size: 2; reason: {reason}" in described
    kubectl("wait", "--for=condition=ScalingActive", "hpa/web", "--timeout=60s")
    kubectl("annotate", "pods", "-l=app=web", "--overwrite", f"{USAGE}=1%")
    kubectl("wait", "--for=jsonpath={.spec.replicas}=1", "deployment/web", "--timeout=60s")
    kubectl("delete", "hpa", "web")
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")


def test_raw(any_kubectl: Kubectl) -> None:
    """The other groups of metrics are read as adapters' users read them."""
    any_kubectl("create", "configmap", "queue", "--from-literal=length=30")
    any_kubectl("label", "configmap", "queue", "simulation.kapiserver.dev/external-metrics=true")
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/length"
    assert '"value":"30"' in any_kubectl("get", "--raw", path)
    any_kubectl("annotate", "configmap", "queue", "simulation.kapiserver.dev/metric.hits=5")
    path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/configmaps/queue/hits"
    assert '"value":"5"' in any_kubectl("get", "--raw", path)
    any_kubectl("delete", "configmap", "queue")
