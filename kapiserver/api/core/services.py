"""Predicates of service specs: whether a service has a cluster IP, a health check node port.

Pure functions on the spec of a service.
"""

from __future__ import annotations

from kapiserver.api.types import Tree

HEADLESS = "None"
"""The cluster IP of a headless service."""
EXTERNAL_NAME = "ExternalName"
WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
"""The types of services that have node ports."""


def ip_family(address: str) -> str:
    """Return the IP family of a valid address: `IPv4` or `IPv6`."""
    return "IPv6" if ":" in address else "IPv4"


def is_headless(spec: Tree) -> bool:
    """Return whether the service has no cluster IP (`None`)."""
    return spec.get("clusterIPs") == [HEADLESS]


def needs_health_check_node_port(spec: Tree) -> bool:
    """Return whether the load balancer checks on each node whether it has pods of the service."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Tree) -> bool:
    """Return whether the service accepts traffic from outside of the cluster."""
    type_ = spec.get("type")
    return type_ in WITH_NODE_PORTS or bool(type_ == "ClusterIP" and spec.get("externalIPs"))
