"""Validation of service CIDRs and IP addresses."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import addresses, names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import IMMUTABLE, immutable
from kapiserver.api.types import Tree

_PARENT = Path("spec") / "parentRef"
_CIDRS = Path("spec") / "cidrs"


def validate_ip_address(obj: Tree) -> Iterator[FieldError]:
    """Validate a new IP address."""
    parent_ref = value_at(obj, "spec", "parentRef")
    if parent_ref is None:
        yield required(_PARENT)
        return
    if parent_ref.get("group"):
        yield from validate_format(names.dns1123_subdomain, parent_ref["group"], _PARENT / "group")
    for name in ("resource", "name"):
        if parent_ref.get(name):
            yield from validate_format(names.path_segment, parent_ref[name], _PARENT / name)
        else:
            yield required(_PARENT / name)
    if parent_ref.get("namespace"):
        yield from validate_format(
            names.path_segment, parent_ref["namespace"], _PARENT / "namespace"
        )


def validate_ip_address_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate that the parent of an IP address does not change."""
    parent_ref = value_at(new, "spec", "parentRef")
    old_parent_ref = value_at(old, "spec", "parentRef")
    yield from immutable(parent_ref, old_parent_ref, _PARENT)


def validate_service_cidr(obj: Tree) -> Iterator[FieldError]:
    """Validate a new service CIDR: at most one range for each IP family."""
    cidrs = value_at(obj, "spec", "cidrs") or []
    if not cidrs:
        yield required(_CIDRS, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        # The internal Go struct, whose JSON form has the names of Go's fields.
        yield invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for index, cidr in enumerate(cidrs):
        yield from validate_format(addresses.canonical_cidr, cidr, _CIDRS[index])
    families = [_family(cidr) for cidr in cidrs]
    if len(cidrs) == 2 and families[0] == families[1] != 0:
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        yield invalid(_CIDRS, cidrs, detail)


def _family(cidr: str) -> int:
    network = addresses.network_of(cidr)
    return network.version if network is not None else 0


def validate_service_cidr_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated service CIDR. Ranges are immutable; a range of the other family may be
    added."""
    cidrs, old_cidrs = value_at(new, "spec", "cidrs") or [], value_at(old, "spec", "cidrs") or []
    adds_family = (len(old_cidrs), len(cidrs)) == (1, 2)
    if not adds_family and len(old_cidrs) != len(cidrs):
        yield invalid(_CIDRS, cidrs, IMMUTABLE)
        return
    for index, cidr in enumerate(old_cidrs):
        yield from immutable(cidrs[index], cidr, _CIDRS[index])
    if adds_family:
        yield from validate_service_cidr(new)
