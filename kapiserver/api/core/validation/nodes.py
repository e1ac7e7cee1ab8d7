"""Validation of nodes. The paths of taints and resources are those of kube-apiserver's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses, names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.v1 import NodeAddress, NodeConfigSource
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.resources import validate_resource_quantity
from kapiserver.api.core.validation.scheduling import validate_taints
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.api.types import Tree

_TAINTS = Path("metadata") / "taints"
_SWAP = Path("metadata") / "nodeSwapStatus"
_CIDRS = Path("spec") / "podCIDRs"
_STATUS = Path("status")


def validate_node(obj: Tree) -> Iterator[FieldError]:
    """Validate a new node."""
    yield from validate_taints(value_at(obj, "spec", "taints"), _TAINTS)
    yield from _validate_resources(obj)
    swap = value_at(obj, "status", "nodeInfo", "swap", "capacity")
    if swap is not None and swap <= 0:
        yield invalid(_SWAP / "capacity", swap, "must be greater than zero")
    yield from _validate_pod_cidrs(value_at(obj, "spec", "podCIDRs") or [])


def _validate_resources(obj: Tree) -> Iterator[FieldError]:
    for kind in ("capacity", "allocatable"):
        for name, text in (value_at(obj, "status", kind) or {}).items():
            yield from validate_resource_quantity(name, text, _STATUS / kind / name)


def _validate_pod_cidrs(cidrs: Sequence[str]) -> Iterator[FieldError]:
    for index, text in enumerate(cidrs):
        yield from validate_format(addresses.cidr, text, _CIDRS[index])
    if len(cidrs) < 2:
        return
    networks = [addresses.network_of(text) for text in cidrs]
    if None in networks:
        index = networks.index(None)
        problem = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidrs[index]})"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"
        yield FieldError("internal", _CIDRS, detail)
    families = {addresses.family_of(text.rpartition("/")[0]) for text in cidrs}
    if None in networks or families != {4, 6} or len(cidrs) > 2:
        yield invalid(_CIDRS, cidrs, "may specify no more than one CIDR for each IP family")


def validate_node_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated node."""
    yield from validate_node(new)
    yield from validate_node_changes(new, old)


def validate_node_changes(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the changes of an updated node or node status: pod CIDRs, provider ID and external
    ID stay once they are set."""
    spec, old_spec, path = new.get("spec") or {}, old.get("spec") or {}, Path("spec")
    yield from _validate_resources(new)
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(value_at(new, "status", "addresses") or ()):
        key = (address.get("type") or "", address.get("address") or "")
        if key in seen:
            yield duplicate((_STATUS / "addresses")[index], as_go_struct(address, NodeAddress))
        seen.add(key)
    old_cidrs, cidrs = old_spec.get("podCIDRs") or [], spec.get("podCIDRs") or []
    if old_cidrs:
        changes = sum(cidr != old_cidr for cidr, old_cidr in zip(old_cidrs, cidrs, strict=False))
        for _ in range(changes if len(old_cidrs) == len(cidrs) else 1):
            detail = 'node updates may not change podCIDR except from "" to valid'
            yield forbidden(_CIDRS, detail)
    if old_spec.get("providerID") and spec.get("providerID") != old_spec["providerID"]:
        change = "modified" if spec.get("providerID") else "cleared"
        yield invalid(path / "providerID", None, f"field cannot be {change} once set")
    yield from _validate_config_source(spec.get("configSource"), path / "configSource", _IN_SPEC)
    for kind in ("assigned", "active", "lastKnownGood"):
        source = value_at(new, "status", "config", kind)
        yield from _validate_config_source(source, _STATUS / "config" / kind, _IN_STATUS)
    yield from validate_taints(spec.get("taints"), _TAINTS)
    if (spec.get("externalID") or "") != (old_spec.get("externalID") or ""):
        yield forbidden(path / "externalID", "may not be updated")


# Dynamic kubelet configuration. No component reads it any more, but its fields are validated.

_IN_SPEC, _IN_STATUS = "spec", "status"
_CONFIG_MAP_FIELDS = (
    ("namespace", names.dns1123_label),
    ("name", names.dns1123_subdomain),
    ("kubeletConfigKey", names.config_key),
)


def _validate_config_source(source: Tree | None, path: Path, part: str) -> Iterator[FieldError]:
    if source is None:
        return
    config_map = source.get("configMap")
    if config_map is None:
        value = as_go_struct(source, NodeConfigSource)
        yield invalid(path, value, "exactly one reference subfield must be non-nil")
        return
    config_map_path = path / "configMap"
    for name in ("uid", "resourceVersion"):
        if part == _IN_SPEC and config_map.get(name):
            yield forbidden(config_map_path / name, f"{name} must not be set in spec")
        if part == _IN_STATUS and not config_map.get(name):
            yield required(config_map_path / name, f"{name} must be set in status")
    for name, check in _CONFIG_MAP_FIELDS:
        if config_map.get(name):
            yield from validate_format(check, config_map[name], config_map_path / name)
        else:
            yield required(config_map_path / name, f"{name} must be set")
