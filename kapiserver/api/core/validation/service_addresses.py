"""Rules for the addresses of services and their families.

They hold before addresses are handed out, too: `core/service_families.py` asks them then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses
from kapiserver.api.core.validation.common import validate_format, validate_optional_enum
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, not_supported, required
from kapiserver.api.types import Tree

SPEC = Path("spec")
_LISTED = SPEC / "clusterIPs"
_FAMILIES = SPEC / "ipFamilies"
_POLICY = SPEC / "ipFamilyPolicy"
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_KEPT = "may not change once set"


def is_headless(spec: Tree) -> bool:
    """Whether the service wants no address."""
    return spec.get("clusterIPs") == ["None"]


def validate_cluster_ip_fields(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Addresses, families and policy; addresses of the spec before need not be well spelled."""
    if spec.get("type") == "ExternalName":
        return
    yield from _validate_cluster_ip_match(spec)
    yield from _validate_ip_families(spec)
    listed: Sequence[str] = spec.get("clusterIPs") or []
    errors = list(_validate_cluster_ips(listed, old_spec.get("clusterIPs") or ()))
    yield from errors
    if len(listed) > 2:
        yield invalid(_LISTED, listed, "may only hold up to 2 values")
    if errors:
        return
    kinds = [addresses.family_of(one) for one in listed]
    if len(listed) > 1 and not {4, 6}.issubset(kinds):
        yield invalid(_LISTED, listed, "may specify no more than one IP for each IP family")
    if is_headless(spec):
        return
    for index, (kind, family) in enumerate(zip(kinds, spec.get("ipFamilies") or (), strict=False)):
        if family in ("IPv4", "IPv6") and f"IPv{kind}" != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(_LISTED[index], listed[index], detail)


def _validate_cluster_ip_match(spec: Tree) -> Iterator[FieldError]:
    first, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if first and not listed:
        yield required(_LISTED)
    elif first and listed[0] != first:
        yield invalid(_LISTED, listed, "first value must match `clusterIP`")
    elif listed and not first:
        yield invalid(_LISTED, listed, "must be empty when `clusterIP` is not specified")


def _validate_ip_families(spec: Tree) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield not_supported(_FAMILIES[index], family, ("IPv4", "IPv6"))
        if family in seen:
            yield duplicate(_FAMILIES[index], family)
        seen.add(family)
    yield from validate_optional_enum(spec.get("ipFamilyPolicy"), _POLICIES, _POLICY)


def _validate_cluster_ips(listed: Sequence[str], known: Sequence[str]) -> Iterator[FieldError]:
    for index, address in enumerate(listed):
        if index or address != "None":
            yield from validate_format(addresses.ip, address, _LISTED[index], known=known)
        elif len(listed) > 1:
            yield invalid(_LISTED, listed, "'None' must be the first and only value")


def validate_cluster_ips_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """The first address and family stay; the second may come, and go if the policy says so."""
    if "ExternalName" in (spec.get("type"), old_spec.get("type")):
        return
    if not (is_headless(spec) and is_headless(old_spec)):
        yield from _validate_cluster_ips_update(spec, old_spec)
    if not is_headless(spec) and not is_headless(old_spec):
        yield from _validate_ip_families_update(spec, old_spec)


def _validate_cluster_ips_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    new, old = spec.get("clusterIPs") or [], old_spec.get("clusterIPs") or []
    if len(new) == len(old):
        for index, (address, had) in enumerate(zip(new, old, strict=True)):
            if address != had:
                yield invalid(_LISTED[index], new, _KEPT)
        return
    if not new:
        yield invalid(_LISTED[0], None, "primary clusterIP can not be unset")
    elif old and new[0] != old[0]:
        yield invalid(_LISTED[0], new, _KEPT)
    if len(new) == 1 and len(old) > 1:
        yield from _validate_secondary_release(spec, "clusterIP")


def _validate_ip_families_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    new, old = spec.get("ipFamilies") or [], old_spec.get("ipFamilies") or []
    listed, at = spec.get("clusterIPs"), _FAMILIES[0]
    if len(new) == len(old):
        for family, had in zip(new, old, strict=True):
            if family != had:
                yield invalid(at, new, _KEPT)
        return
    if len(new) < len(old) and not listed:
        yield invalid(at, new or None, "primary ipFamily can not be unset")
    if new and old and new[0] != old[0]:
        yield invalid(at, listed, _KEPT)  # kube-apiserver shows the addresses here
    if len(new) == 1 and len(old) > 1:
        yield from _validate_secondary_release(spec, "ipFamily")


def _validate_secondary_release(spec: Tree, what: str) -> Iterator[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        yield invalid(_POLICY, policy, detail)
