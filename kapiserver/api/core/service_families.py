"""IP families of services, and the allocated addresses and ports that updates keep.

Pure functions on trees: the allocators are in `apiserver/allocation/`. Mirrors the defaulting half
of kube-apiserver's pkg/registry/core/service/storage.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from kapiserver.api.accessors import name_of
from kapiserver.api.core import v1
from kapiserver.api.core.services import (
    EXTERNAL_NAME,
    HEADLESS,
    WITH_NODE_PORTS,
    ip_family,
    is_externally_accessible,
    is_headless,
    needs_health_check_node_port,
)
from kapiserver.api.core.validation.service_addresses import validate_cluster_ip_fields
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import copy_field
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_OTHER_FAMILY = {"IPv4": "IPv6", "IPv6": "IPv4"}


class Families(Struct, frozen=True, kw_only=True):
    """The IP families of a cluster's services, the default first."""

    names: tuple[str, ...]

    @property
    def default(self) -> str:
        """The family of a service that does not choose one."""
        return self.names[0]


def canonical_ip(address: str) -> str:
    """Return the canonical text of an address, by which IPAddress objects are named."""
    return str(ipaddress.ip_address(address))


def normalize_cluster_ips(new: Tree, old: Tree) -> None:
    """Make `clusterIP` and the first of `clusterIPs` agree. Old clients know `clusterIP` only, so a
    change of it alone applies to the list, too. `old` is empty for a new service."""
    cluster_ip, cluster_ips = new.get("clusterIP") or "", new.get("clusterIPs") or []
    old_cluster_ip = old.get("clusterIP") or ""
    # Objects stored before 1.20 have no list.
    old_cluster_ips = old.get("clusterIPs") or ([old_cluster_ip] if old_cluster_ip else [])
    if not old:
        if cluster_ip and not cluster_ips:
            new["clusterIPs"] = [cluster_ip]
    elif cluster_ip == old_cluster_ip:
        if old_cluster_ips and not cluster_ips:
            new["clusterIPs"] = old_cluster_ips
    elif cluster_ips == old_cluster_ips:
        if cluster_ip:
            new["clusterIPs"] = [cluster_ip]
        else:
            new.pop("clusterIPs", None)


def patch_allocated_values(new: Tree, old: Tree) -> None:
    """Copy allocated addresses and ports that an update omits from the old spec."""
    if EXTERNAL_NAME not in (new.get("type"), old.get("type")):
        if not new.get("clusterIP"):
            copy_field(new, old, "clusterIP")
        if not new.get("clusterIPs") and new.get("clusterIP") == old.get("clusterIP"):
            copy_field(new, old, "clusterIPs")
    if new.get("type") in WITH_NODE_PORTS and old.get("type") in WITH_NODE_PORTS:
        _keep_node_ports(new, old)
    if (
        needs_health_check_node_port(new)
        and needs_health_check_node_port(old)
        and not new.get("healthCheckNodePort")
    ):
        copy_field(new, old, "healthCheckNodePort")


def _keep_node_ports(new: Tree, old: Tree) -> None:
    old_node_ports = {port.get("name"): port.get("nodePort") for port in old.get("ports") or ()}
    shared_ports = node_ports(new) & node_ports(old)
    for port in new.get("ports") or ():
        number = old_node_ports.get(port.get("name"))
        if number and not port.get("nodePort") and number not in shared_ports:
            port["nodePort"] = number
            reorder_keys(port, v1.ServicePort)


def node_ports(spec: Tree) -> set[int]:
    """Return the node ports of a service."""
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def drop_type_dependent_fields(new: Tree, old: Tree) -> None:
    """Clear the fields that the old type of a service allows and the new one does not, unless the
    update changed them."""
    for has_fields, groups in _TYPE_DEPENDENT_FIELDS:
        if has_fields(old) and not has_fields(new):
            for names in groups:
                if all(new.get(name) == old.get(name) for name in names):
                    for name in names:
                        new.pop(name, None)
    if _has_node_ports(old) and not _has_node_ports(new) and node_ports(new) <= node_ports(old):
        for port in new.get("ports") or ():
            port.pop("nodePort", None)


def _has_cluster_ip(spec: Tree) -> bool:
    return spec.get("type") != EXTERNAL_NAME


def _has_node_ports(spec: Tree) -> bool:
    return spec.get("type") in WITH_NODE_PORTS


def _is_load_balancer(spec: Tree) -> bool:
    return spec.get("type") == "LoadBalancer"


_TYPE_DEPENDENT_FIELDS: tuple[tuple[Callable[[Tree], bool], tuple[tuple[str, ...], ...]], ...] = (
    (_has_cluster_ip, (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",))),
    (needs_health_check_node_port, (("healthCheckNodePort",),)),
    (_is_load_balancer, (("allocateLoadBalancerNodePorts",), ("loadBalancerClass",))),
    (is_externally_accessible, (("externalTrafficPolicy",),)),
)
"""Fields that only services of some types have, as (predicate, groups). The fields of a group are
cleared together."""


def default_ip_families(obj: Tree, old: Tree | None, families: Families) -> None:
    """Set `ipFamilyPolicy` and `ipFamilies` of a service, based on its spec, the old spec and the
    families of the cluster. Raises InvalidObject."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    if spec.get("type") == EXTERNAL_NAME or _keeps_prefer_dual_stack(spec, old_spec):
        return
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = _default_policy(spec, old_spec)
    _raise_if_invalid(obj, list(validate_cluster_ip_fields(spec, old_spec)))
    errors = list(_reduce_to_single_stack(spec, old_spec)) if old is not None else []
    errors.extend(_validate_single_stack(spec))
    errors.extend(_infer_families(spec, families.names))
    _raise_if_invalid(obj, errors)
    if is_headless(spec) and not spec.get("selector"):
        chosen_families = spec.get("ipFamilies") or [families.default]
        if len(chosen_families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            chosen_families = [*chosen_families, _OTHER_FAMILY[chosen_families[0]]]
        spec["ipFamilies"] = chosen_families
        return
    _raise_if_invalid(obj, list(_validate_configured_families(spec, families.names)))
    chosen_families = spec.get("ipFamilies") or [families.default]
    is_dual_stack_cluster = len(families.names) == 2
    if (
        is_dual_stack_cluster
        and len(chosen_families) == 1
        and spec["ipFamilyPolicy"] != "SingleStack"
    ):
        chosen_families = [*chosen_families, _OTHER_FAMILY[chosen_families[0]]]
    spec["ipFamilies"] = chosen_families


def _keeps_prefer_dual_stack(spec: Tree, old_spec: Tree) -> bool:
    # An unrelated update does not change a PreferDualStack service.
    unchanged_fields = ("clusterIPs", "ipFamilies")
    return spec.get("ipFamilyPolicy") == old_spec.get(
        "ipFamilyPolicy"
    ) == "PreferDualStack" and all(
        (spec.get(name) or []) == (old_spec.get(name) or []) for name in unchanged_fields
    )


def _default_policy(spec: Tree, old_spec: Tree) -> str:
    if old_spec.get("ipFamilyPolicy"):
        return str(old_spec["ipFamilyPolicy"])
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        return "RequireDualStack"
    return "SingleStack"


def _reduce_to_single_stack(spec: Tree, old_spec: Tree) -> Sequence[FieldError]:
    path, policy = _SPEC / "ipFamilyPolicy", spec["ipFamilyPolicy"]
    errors = []
    for name, noun in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        new, old = spec.get(name) or [], old_spec.get(name) or []
        if policy == "SingleStack":
            if new == old and len(new) > 1:
                spec[name] = new[:1]
        elif len(old) == 2 and len(new) == 1 and new[0] == old[0]:
            detail = f"must be 'SingleStack' to release the secondary {noun}"
            errors.append(invalid(path, policy, detail))
    return errors


def _validate_single_stack(spec: Tree) -> Sequence[FieldError]:
    path, policy = _SPEC / "ipFamilyPolicy", spec["ipFamilyPolicy"]
    if policy != "SingleStack":
        return ()
    message = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    fields = (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
    return [
        invalid(path, policy, message.format(noun))
        for name, noun in fields
        if len(spec.get(name) or ()) == 2
    ]


def _infer_families(spec: Tree, configured: Collection[str]) -> Sequence[FieldError]:
    addresses = spec.get("clusterIPs") or []
    families = list(spec.get("ipFamilies") or ())
    errors = []
    for index, address in enumerate(addresses):
        if address == HEADLESS:
            break
        family = ip_family(address)
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


def _validate_configured_families(spec: Tree, configured: Collection[str]) -> Sequence[FieldError]:
    errors = []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(configured) < 2:
        detail = "this cluster is not configured for dual-stack services"
        errors.append(invalid(_SPEC / "ipFamilyPolicy", "RequireDualStack", detail))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in configured:
            family_path = (_SPEC / "ipFamilies")[index]
            errors.append(invalid(family_path, family, "not configured on this cluster"))
    return errors


def _raise_if_invalid(obj: Tree, errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(group="", kind="Service", name=name_of(obj), errors=errors)
