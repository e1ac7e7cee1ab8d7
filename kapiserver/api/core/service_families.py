"""Which families of addresses a service has, and which addresses of its old self it keeps.

Pure rules on trees of services; who hands out the addresses is not known here. Mirrors the
defaulting half of kube-apiserver's pkg/registry/core/service/storage.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kapiserver.api.core import v1
from kapiserver.api.core.validation.service_addresses import validate_cluster_ip_fields
from kapiserver.api.core.validation.services import (
    is_externally_accessible,
    needs_health_check_node_port,
)
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.objects import name_of
from kapiserver.api.strategy import keep
from kapiserver.api.types import Tree

NONE = "None"
EXTERNAL = "ExternalName"
WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_SPEC = Path("spec")
_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """The families that a cluster gives its services, the default first."""

    names: tuple[str, ...]

    @property
    def default(self) -> str:
        """What a service gets that does not say."""
        return self.names[0]


def family_of(address: str) -> str:
    """`IPv4` or `IPv6`."""
    return "IPv6" if ":" in address else "IPv4"


def canonical(address: str) -> str:
    """The address as objects are named by it."""
    return str(ipaddress.ip_address(address))


def is_headless(spec: Tree) -> bool:
    """Whether the service wants no address."""
    return bool((spec.get("clusterIPs") or [""])[0] == NONE)


def align_cluster_ips(new: Tree, old: Tree) -> None:
    """Bring `clusterIP` and `clusterIPs` of a spec into line: old clients know only the first, so
    what they change there holds for the list too. `old` is empty for a new service."""
    first, listed = new.get("clusterIP") or "", new.get("clusterIPs") or []
    old_cluster_ip = old.get("clusterIP") or ""
    # Servers before 1.20 stored no list.
    listed_before = old.get("clusterIPs") or ([old_cluster_ip] if old_cluster_ip else [])
    if not old:
        if first and not listed:
            new["clusterIPs"] = [first]
    elif first == old_cluster_ip:
        if listed_before and not listed:
            new["clusterIPs"] = listed_before
    elif listed == listed_before:
        if first:
            new["clusterIPs"] = [first]
        else:
            new.pop("clusterIPs", None)


def keep_allocated(new: Tree, old: Tree) -> None:
    """Take over what was given to the old spec and an update leaves out."""
    if EXTERNAL not in (new.get("type"), old.get("type")):
        if not new.get("clusterIP"):
            keep(new, old, "clusterIP")
        if not new.get("clusterIPs") and new.get("clusterIP") == old.get("clusterIP"):
            keep(new, old, "clusterIPs")
    if new.get("type") in WITH_NODE_PORTS and old.get("type") in WITH_NODE_PORTS:
        _keep_node_ports(new, old)
    if (
        needs_health_check_node_port(new)
        and needs_health_check_node_port(old)
        and not new.get("healthCheckNodePort")
    ):
        keep(new, old, "healthCheckNodePort")


def _keep_node_ports(new: Tree, old: Tree) -> None:
    given = {port.get("name"): port.get("nodePort") for port in old.get("ports") or ()}
    used = node_ports(new) & node_ports(old)
    for port in new.get("ports") or ():
        number = given.get(port.get("name"))
        if number and not port.get("nodePort") and number not in used:
            port["nodePort"] = number
            reorder_keys(port, v1.ServicePort)


def node_ports(spec: Tree) -> set[int]:
    """The node ports of a service's ports."""
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def drop_what_the_type_lacks(new: Tree, old: Tree) -> None:
    """Clear what a service had as its old type, and the new one must not have, where the client
    left it as it was."""
    for applies, groups in _OF_TYPES:
        if applies(old) and not applies(new):
            for names in groups:
                if all(new.get(name) == old.get(name) for name in names):
                    for name in names:
                        new.pop(name, None)
    if _has_node_ports(old) and not _has_node_ports(new) and node_ports(new) <= node_ports(old):
        for port in new.get("ports") or ():
            port.pop("nodePort", None)


def _has_address(spec: Tree) -> bool:
    return spec.get("type") != EXTERNAL


def _has_node_ports(spec: Tree) -> bool:
    return spec.get("type") in WITH_NODE_PORTS


def _has_balancer(spec: Tree) -> bool:
    return spec.get("type") == "LoadBalancer"


_OF_TYPES: tuple[tuple[Callable[[Tree], bool], tuple[tuple[str, ...], ...]], ...] = (
    (_has_address, (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",))),
    (needs_health_check_node_port, (("healthCheckNodePort",),)),
    (_has_balancer, (("allocateLoadBalancerNodePorts",), ("loadBalancerClass",))),
    (is_externally_accessible, (("externalTrafficPolicy",),)),
)
"""Fields that services of some types alone have; those of one group go together."""


def settle_families(obj: Tree, old: Tree | None, families: Families) -> None:
    """Decide `ipFamilyPolicy` and `ipFamilies` of a service from what it says, what it was and
    what the cluster has. Raises InvalidObject."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    if spec.get("type") == EXTERNAL or _prefers_what_it_has(spec, old_spec):
        return
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = _policy(spec, old_spec)
    _refuse(obj, list(validate_cluster_ip_fields(spec, old_spec)))
    errors = list(_reduced(spec, old_spec)) if old is not None else []
    errors.extend(_too_many_for_policy(spec))
    errors.extend(_inferred(spec, families.names))
    _refuse(obj, errors)
    if is_headless(spec) and not spec.get("selector"):
        found = spec.get("ipFamilies") or [families.default]
        if len(found) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            found = [*found, _OTHER[found[0]]]
        spec["ipFamilies"] = found
        return
    _refuse(obj, list(_unconfigured(spec, families.names)))
    found = spec.get("ipFamilies") or [families.default]
    both = len(families.names) == 2
    if both and len(found) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
        found = [*found, _OTHER[found[0]]]
    spec["ipFamilies"] = found


def _prefers_what_it_has(spec: Tree, old_spec: Tree) -> bool:
    # Services are not upgraded or downgraded in passing.
    same = ("clusterIPs", "ipFamilies")
    return spec.get("ipFamilyPolicy") == old_spec.get(
        "ipFamilyPolicy"
    ) == "PreferDualStack" and all(
        (spec.get(name) or []) == (old_spec.get(name) or []) for name in same
    )


def _policy(spec: Tree, old_spec: Tree) -> str:
    if old_spec.get("ipFamilyPolicy"):
        return str(old_spec["ipFamilyPolicy"])
    if spec.get("clusterIP") == NONE and not spec.get("selector"):
        return "RequireDualStack"
    return "SingleStack"


def _reduced(spec: Tree, old_spec: Tree) -> Sequence[FieldError]:
    path, policy = _SPEC / "ipFamilyPolicy", spec["ipFamilyPolicy"]
    errors = []
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        new, old = spec.get(name) or [], old_spec.get(name) or []
        if policy == "SingleStack":
            if new == old and len(new) > 1:
                spec[name] = new[:1]
        elif len(old) == 2 and len(new) == 1 and new[0] == old[0]:
            detail = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid(path, policy, detail))
    return errors


def _too_many_for_policy(spec: Tree) -> Sequence[FieldError]:
    path, policy = _SPEC / "ipFamilyPolicy", spec["ipFamilyPolicy"]
    if policy != "SingleStack":
        return ()
    words = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    named = (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
    return [
        invalid(path, policy, words.format(what))
        for name, what in named
        if len(spec.get(name) or ()) == 2
    ]


def _inferred(spec: Tree, configured: Collection[str]) -> Sequence[FieldError]:
    addresses = spec.get("clusterIPs") or []
    families = list(spec.get("ipFamilies") or ())
    errors = []
    for index, address in enumerate(addresses):
        if address == NONE:
            break
        family = family_of(address)
        if index < len(families):
            continue
        if family in configured:
            families.append(family)
        else:
            address_path = (_SPEC / "clusterIPs")[index]
            errors.append(
                invalid(address_path, addresses, f"{family} is not configured on this cluster")
            )
    if families:
        spec["ipFamilies"] = families
    return errors


def _unconfigured(spec: Tree, configured: Collection[str]) -> Sequence[FieldError]:
    errors = []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(configured) < 2:
        detail = "this cluster is not configured for dual-stack services"
        errors.append(invalid(_SPEC / "ipFamilyPolicy", "RequireDualStack", detail))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in configured:
            family_path = (_SPEC / "ipFamilies")[index]
            errors.append(invalid(family_path, family, "not configured on this cluster"))
    return errors


def _refuse(obj: Tree, errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(group="", kind="Service", name=name_of(obj), errors=errors)
