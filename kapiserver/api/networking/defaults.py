"""Defaulting of the networking group.

Mirrors pkg/apis/networking/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.networking import v1
from kapiserver.api.types import Tree, Type


def _default_port(port: Tree) -> None:
    if port.get("protocol") is None:
        port["protocol"] = "TCP"


def _default_network_policy(policy: Tree) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        reorder_keys(spec, v1.NetworkPolicySpec)


def _default_parameters(parameters: Tree) -> None:
    if parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.IngressClassParametersReference: _default_parameters,
    v1.NetworkPolicy: _default_network_policy,
    v1.NetworkPolicyPort: _default_port,
}
