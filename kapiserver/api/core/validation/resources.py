"""Validation of resource names, quantities, requests and limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from kapiserver.api import names
from kapiserver.api.core.pods.requests import container_resources
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.quantity import Amount, parse
from kapiserver.api.types import Tree

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_COMPUTE = ("cpu", "memory")
_COUNTED = (
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_STANDARD = frozenset(
    (
        *_CONTAINER,
        *_COUNTED,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER),
        "requests.storage",
        "storage",
    )
)
_HUGEPAGES = "hugepages-"
_NameRule: TypeAlias = Callable[[str, Path], Iterator[FieldError]]
NOT_INTEGER = "must be an integer"
NEGATIVE = "must be greater than or equal to 0"


def is_native(name: str) -> bool:
    """Return whether a resource name belongs to Kubernetes itself and not to an extension."""
    return "/" not in name or "kubernetes.io/" in name


def _is_hugepages(name: str) -> bool:
    return name.startswith(_HUGEPAGES)


def _is_hugepages_quota(name: str) -> bool:
    return name.startswith((_HUGEPAGES, f"requests.{_HUGEPAGES}"))


def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    """Return whether the limit of a resource may exceed its request."""
    return is_native(name) and not _is_hugepages(name)


def amount(text: str | None) -> Decimal:
    """Return the exact value of a canonical quantity."""
    return parse(text or "0").decimal


def validate_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate the name of any resource."""
    messages = list(validate_format(names.qualified_name, name, path))
    yield from messages
    if not messages and "/" not in name and name not in _STANDARD and not _is_hugepages_quota(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def validate_container_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    """Validate the name of a resource that a container can request."""
    yield from validate_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not _is_hugepages(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def validate_resource_quantity(name: str, text: str, path: Path) -> Iterator[FieldError]:
    """Validate the quantity of a resource: not negative, and an integer for resources that count
    objects."""
    value = parse(text or "0")
    if value.mantissa < 0:
        yield invalid(path, text, NEGATIVE)
    is_count = name in _COUNTED or is_extended(name)
    if is_count and not value.is_integer:
        yield invalid(path, text, NOT_INTEGER)


def validate_resource_requirements(
    obj: Tree | None, path: Path, claims: Collection[str] = ()
) -> Iterator[FieldError]:
    """Validate the requests, limits and resource claims of a container. `claims` are the names of
    the pod's resource claims."""
    if obj:
        yield from _validate_requirements(obj, path, claims, validate_container_resource_name)


def claim_names(spec: Tree) -> frozenset[str]:
    """Return the names of a pod's resource claims."""
    candidates = (claim.get("name") for claim in spec.get("resourceClaims") or ())
    return frozenset(name for name in candidates if name)


def _validate_requirements(
    obj: Tree, path: Path, claims: Collection[str], name_rule: _NameRule
) -> Iterator[FieldError]:
    limits, requests = obj.get("limits") or {}, obj.get("requests") or {}
    for name, text in limits.items():
        field_path = (path / "limits")[name]
        yield from name_rule(name, field_path)
        yield from validate_resource_quantity(name, text, field_path)
        yield from _validate_huge_page_quantity(name, text, field_path)
    for name, text in requests.items():
        field_path = (path / "requests")[name]
        yield from name_rule(name, field_path)
        yield from validate_resource_quantity(name, text, field_path)
        yield from _validate_request_against_limit(name, text, limits.get(name), path)
        yield from _validate_huge_page_quantity(name, text, field_path)
    resource_names = {*limits, *requests}
    if any(map(_is_hugepages, resource_names)) and not resource_names.intersection(_COMPUTE):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _validate_claim_names(obj.get("claims") or (), claims, path / "claims")


def _validate_huge_page_quantity(name: str, text: str, path: Path) -> Iterator[FieldError]:
    if not _is_hugepages(name):
        return
    try:
        size = parse(name.removeprefix(_HUGEPAGES))
    except ValueError:
        size = Amount(0, 0, "DecimalSI")
    is_size = size.mantissa > 0 and size.is_integer
    if not is_size or parse(text).scaled(0) % size.scaled(0):
        yield invalid(path, text, f"{text} is not positive integer multiple of {name}")


def _validate_claim_names(
    claims: Sequence[Tree], pod_claims: Collection[str], path: Path
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(path[index])
            continue
        if name in seen:  # the claim is used with all of its requests
            yield duplicate(path[index], name)
        else:
            key = f"{name}/{request}" if request else name
            if request:
                yield from validate_format(names.dns1123_label, request, path[index] / "request")
            if key in seen:
                yield duplicate(path[index], key)
            elif not request:
                for _ in (seen_key for seen_key in seen if seen_key.startswith(f"{name}/")):
                    yield duplicate(path[index], name)
            seen.add(key)
        if name not in pod_claims:
            suffix = f": {', '.join(sorted(pod_claims))}" if pod_claims else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{suffix}"
            yield FieldError("not found", path[index], detail, name)


def validate_pod_level_resources(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the requests and limits of a pod as a whole against those of its containers."""
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        yield forbidden(path / "claims", "claims may not be set for Resources at pod-level")
    yield from _validate_requirements(
        resources, path, claim_names(spec), _validate_pod_resource_name
    )
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, aggregate in container_resources(spec, "requests").items():
        if name in requests and aggregate.decimal > amount(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {aggregate}"
            yield invalid((path / "requests")[name], requests[name], detail)
    for name, aggregate in container_resources(spec, "limits").items():
        if _is_hugepages(name) and name in limits and aggregate.decimal > amount(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {aggregate}"
            yield invalid((path / "limits")[name], limits[name], detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and amount(text) > amount(limits[name]):
                limits_path = (path / "containers")[index][name] / "limits"
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(limits_path, text, detail)


def _validate_pod_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    errors = list(validate_resource_name(name, path))
    yield from errors
    if not errors and name not in _COMPUTE and not _is_hugepages(name):
        yield not_supported(path, name, (*_COMPUTE, _HUGEPAGES))


def _validate_request_against_limit(
    name: str, text: str, limit: str | None, path: Path
) -> Iterator[FieldError]:
    if limit is None:
        if not may_overcommit(name):
            yield required(path / "limits", "Limit must be set for non overcommitable resources")
        return
    if amount(text) != amount(limit) and not may_overcommit(name):
        yield invalid(path / "requests", text, f"must be equal to {name} limit of {limit}")
    elif amount(text) > amount(limit):
        detail = f"must be less than or equal to {name} limit of {limit}"
        yield invalid(path / "requests", text, detail)
