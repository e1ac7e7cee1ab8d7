"""Warnings about valid objects of the networking group.

Mirrors the strategies of pkg/registry/networking.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.addresses import cidr_warnings, ip_warnings
from kapiserver.api.errors import Path
from kapiserver.api.networking.validation.ingresses import CLASS_ANNOTATION
from kapiserver.api.networking.validation.policies import DIRECTIONS
from kapiserver.api.types import Tree


def warnings_for_ingress(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a new ingress."""
    has_class_name = value_at(obj, "spec", "ingressClassName") is not None
    if CLASS_ANNOTATION in annotations_of(obj) and not has_class_name:
        yield (
            f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' "
            "instead"
        )


def warnings_for_ingress_status(obj: Tree) -> Iterator[str]:
    """Yield the warnings about the addresses of an ingress."""
    for index, ingress in enumerate(value_at(obj, "status", "loadBalancer", "ingress") or ()):
        ip_path = (Path("status") / "loadBalancer" / "ingress")[index] / "ip"
        yield from ip_warnings(ingress.get("ip") or "", ip_path)


def warnings_for_network_policy(obj: Tree) -> Iterator[str]:
    """Yield the warnings about a network policy."""
    spec = obj.get("spec") or {}
    for direction, peers_field in DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(peers_field) or ()):
                block = peer.get("ipBlock") or {}
                ip_block_path = ((Path("spec") / direction)[index] / peers_field)[
                    number
                ] / "ipBlock"
                yield from cidr_warnings(block.get("cidr") or "", ip_block_path / "cidr")
                for position, text in enumerate(block.get("except") or ()):
                    yield from cidr_warnings(text, (ip_block_path / "except")[position])
