"""Computes when the probes of a simulated container have succeeded or failed often enough.

Times are seconds after the probe begins. Mirrors pkg/kubelet/prober.
"""

from __future__ import annotations

from kapiserver.api.types import Tree


def seconds_to_success(probe: Tree | None) -> float:
    """Return the seconds until a probe that succeeds counts as success; 0 without a probe."""
    if not probe:
        return 0.0
    return _seconds(probe, probe.get("successThreshold") or 1)


def seconds_to_failure(probe: Tree) -> float:
    """Return the seconds until a probe that fails counts as failure."""
    return _seconds(probe, probe.get("failureThreshold") or 3)


def failure_output(probe: Tree, address: str) -> str:
    """Return what a kubelet reports of a probe that fails, for the address of the pod."""
    if "httpGet" in probe:
        return "HTTP probe failed with statuscode: 500"
    if "tcpSocket" in probe:
        port = probe["tcpSocket"].get("port")
        return f"dial tcp {address}:{port}: connect: connection refused"
    if "grpc" in probe:
        return 'service unhealthy (responded with "NOT_SERVING")'
    return ""


def _seconds(probe: Tree, times: int) -> float:
    period = probe.get("periodSeconds") or 10
    return float((probe.get("initialDelaySeconds") or 0) + (times - 1) * period)
