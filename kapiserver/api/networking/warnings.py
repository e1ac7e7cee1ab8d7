"""What a client should be told about valid objects of the networking group.

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


def ingress(obj: Tree) -> Iterator[str]:
    """A new ingress."""
    named = value_at(obj, "spec", "ingressClassName") is not None
    if CLASS_ANNOTATION in annotations_of(obj) and not named:
        yield (
            f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' "
            "instead"
        )


def ingress_status(obj: Tree) -> Iterator[str]:
    """The addresses that the controller reports."""
    for index, ingress in enumerate(value_at(obj, "status", "loadBalancer", "ingress") or ()):
        ip_path = (Path("status") / "loadBalancer" / "ingress")[index] / "ip"
        yield from ip_warnings(ingress.get("ip") or "", ip_path)


def network_policy(obj: Tree) -> Iterator[str]:
    """A network policy, new or changed."""
    spec = obj.get("spec") or {}
    for direction, side in DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(side) or ()):
                block = peer.get("ipBlock") or {}
                ip_block_path = ((Path("spec") / direction)[index] / side)[number] / "ipBlock"
                yield from cidr_warnings(block.get("cidr") or "", ip_block_path / "cidr")
                for place, text in enumerate(block.get("except") or ()):
                    yield from cidr_warnings(text, (ip_block_path / "except")[place])
