"""Validation of the cluster IPs and IP families of services.

`core/service_families.py` calls it before addresses are allocated, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses
from kapiserver.api.core.services import EXTERNAL_NAME, HEADLESS, is_headless
from kapiserver.api.core.validation.common import validate_format, validate_optional_enum
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, not_supported, required
from kapiserver.api.types import Tree

SPEC = Path("spec")
_CLUSTER_IPS = SPEC / "clusterIPs"
_FAMILIES = SPEC / "ipFamilies"
_POLICY = SPEC / "ipFamilyPolicy"
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_IMMUTABLE = "may not change once set"


def validate_cluster_ip_fields(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Validate cluster IPs, IP families and the family policy. Addresses that `old_spec` has
    already need not be valid."""
    if spec.get("type") == EXTERNAL_NAME:
        return
    yield from _validate_cluster_ip_match(spec)
    yield from _validate_ip_families(spec)
    cluster_ips: Sequence[str] = spec.get("clusterIPs") or []
    errors = list(_validate_cluster_ips(cluster_ips, old_spec.get("clusterIPs") or ()))
    yield from errors
    if len(cluster_ips) > 2:
        yield invalid(_CLUSTER_IPS, cluster_ips, "may only hold up to 2 values")
    if errors:
        return
    versions = [addresses.family_of(cluster_ip) for cluster_ip in cluster_ips]
    if len(cluster_ips) > 1 and not {4, 6}.issubset(versions):
        yield invalid(
            _CLUSTER_IPS, cluster_ips, "may specify no more than one IP for each IP family"
        )
    if is_headless(spec):
        return
    for index, (version, family) in enumerate(
        zip(versions, spec.get("ipFamilies") or (), strict=False)
    ):
        if family in ("IPv4", "IPv6") and f"IPv{version}" != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(_CLUSTER_IPS[index], cluster_ips[index], detail)


def _validate_cluster_ip_match(spec: Tree) -> Iterator[FieldError]:
    cluster_ip, cluster_ips = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if cluster_ip and not cluster_ips:
        yield required(_CLUSTER_IPS)
    elif cluster_ip and cluster_ips[0] != cluster_ip:
        yield invalid(_CLUSTER_IPS, cluster_ips, "first value must match `clusterIP`")
    elif cluster_ips and not cluster_ip:
        yield invalid(_CLUSTER_IPS, cluster_ips, "must be empty when `clusterIP` is not specified")


def _validate_ip_families(spec: Tree) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield not_supported(_FAMILIES[index], family, ("IPv4", "IPv6"))
        if family in seen:
            yield duplicate(_FAMILIES[index], family)
        seen.add(family)
    yield from validate_optional_enum(spec.get("ipFamilyPolicy"), _POLICIES, _POLICY)


def _validate_cluster_ips(
    cluster_ips: Sequence[str], old_ips: Sequence[str]
) -> Iterator[FieldError]:
    for index, address in enumerate(cluster_ips):
        if index or address != HEADLESS:
            yield from validate_format(
                addresses.ip, address, _CLUSTER_IPS[index], old_values=old_ips
            )
        elif len(cluster_ips) > 1:
            yield invalid(_CLUSTER_IPS, cluster_ips, "'None' must be the first and only value")


def validate_cluster_ips_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Validate that the first cluster IP and family do not change. The second may be added, and
    removed if the policy is SingleStack."""
    if EXTERNAL_NAME in (spec.get("type"), old_spec.get("type")):
        return
    if not (is_headless(spec) and is_headless(old_spec)):
        yield from _validate_cluster_ips_update(spec, old_spec)
    if not is_headless(spec) and not is_headless(old_spec):
        yield from _validate_ip_families_update(spec, old_spec)


def _validate_cluster_ips_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    cluster_ips, old_cluster_ips = spec.get("clusterIPs") or [], old_spec.get("clusterIPs") or []
    if len(cluster_ips) == len(old_cluster_ips):
        for index, (address, old_address) in enumerate(
            zip(cluster_ips, old_cluster_ips, strict=True)
        ):
            if address != old_address:
                yield invalid(_CLUSTER_IPS[index], cluster_ips, _IMMUTABLE)
        return
    if not cluster_ips:
        yield invalid(_CLUSTER_IPS[0], None, "primary clusterIP can not be unset")
    elif old_cluster_ips and cluster_ips[0] != old_cluster_ips[0]:
        yield invalid(_CLUSTER_IPS[0], cluster_ips, _IMMUTABLE)
    if len(cluster_ips) == 1 and len(old_cluster_ips) > 1:
        yield from _validate_secondary_release(spec, "clusterIP")


def _validate_ip_families_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    families, old_families = spec.get("ipFamilies") or [], old_spec.get("ipFamilies") or []
    cluster_ips, first_family_path = spec.get("clusterIPs"), _FAMILIES[0]
    if len(families) == len(old_families):
        for family, old_family in zip(families, old_families, strict=True):
            if family != old_family:
                yield invalid(first_family_path, families, _IMMUTABLE)
        return
    if len(families) < len(old_families) and not cluster_ips:
        yield invalid(first_family_path, families or None, "primary ipFamily can not be unset")
    if families and old_families and families[0] != old_families[0]:
        yield invalid(
            first_family_path, cluster_ips, _IMMUTABLE
        )  # kube-apiserver reports the addresses here
    if len(families) == 1 and len(old_families) > 1:
        yield from _validate_secondary_release(spec, "ipFamily")


def _validate_secondary_release(spec: Tree, field_name: str) -> Iterator[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {field_name}"
        yield invalid(_POLICY, policy, detail)
