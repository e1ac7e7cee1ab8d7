"""Strategies of the discovery group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.accessors import generation_of, labels_of, metadata_of, next_generation
from kapiserver.api.addresses import ip_warnings
from kapiserver.api.discovery import v1
from kapiserver.api.discovery.declarative_rules import ENDPOINT_SLICE
from kapiserver.api.discovery.validation import (
    validate_endpoint_slice,
    validate_endpoint_slice_update,
)
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree

_CONTENT = ("addressType", "endpoints", "ports")
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_KUBERNETES_CONTROLLERS = (
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
)
_TOPOLOGY = "deprecatedTopology"
_HOST_LABEL = "kubernetes.io/hostname"


class EndpointSliceStrategy(Strategy):
    """The strategy of endpoint slices. Generations count changes of the content and of labels, and
    deprecated topology is dropped."""

    declarative_rules = ENDPOINT_SLICE

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop(_TOPOLOGY, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        is_changed = any(new.get(name) != old.get(name) for name in _CONTENT)
        if is_changed or labels_of(new) != labels_of(old):
            metadata_of(new)["generation"] = next_generation(generation_of(old))
        if (new.get("endpoints") or []) == (old.get("endpoints") or []):
            return
        old_nodes = {_topology_node(endpoint) for endpoint in old.get("endpoints") or ()} - {""}
        for endpoint in new.get("endpoints") or ():
            node = _topology_node(endpoint)
            if node in old_nodes and endpoint.get("nodeName") is None:
                endpoint["nodeName"] = node
            endpoint.pop(_TOPOLOGY, None)
            reorder_keys(endpoint, v1.Endpoint)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_endpoint_slice(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_endpoint_slice_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        messages = []
        if old is None and new.get("addressType") == "FQDN":
            # The path as in kube-apiserver's message.
            messages.append("spec.addressType: FQDN endpoints are deprecated")
        if labels_of(new).get(_MANAGED_BY) in _KUBERNETES_CONTROLLERS:
            return messages
        return messages + [
            text
            for index, endpoint in enumerate(new.get("endpoints") or ())
            for number, address in enumerate(endpoint.get("addresses") or ())
            for text in ip_warnings(address, (Path("endpoints")[index] / "addresses")[number])
        ]


def _topology_node(endpoint: Tree) -> str:
    """Return the node that an endpoint names in its deprecated topology, or ""."""
    name = (endpoint.get(_TOPOLOGY) or {}).get(_HOST_LABEL) or ""
    return "" if names.dns1123_subdomain(name) else name


STRATEGIES: dict[str, Strategy] = {"endpointslices": EndpointSliceStrategy()}
