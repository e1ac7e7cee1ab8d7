"""Rules for quantities of resources: names, signs, whole numbers, requests against limits."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from kapiserver.api import names
from kapiserver.api.core.pod_requests import pod_resources
from kapiserver.api.core.validation.common import checked
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.quantity import parse
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
_HUGE = "hugepages-"
NOT_INTEGER = "must be an integer"
NEGATIVE = "must be greater than or equal to 0"


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own, not an extension's."""
    return "/" not in name or "kubernetes.io/" in name


def _is_huge(name: str) -> bool:
    return name.startswith(_HUGE)


def _is_huge_quota(name: str) -> bool:
    return name.startswith((_HUGE, f"requests.{_HUGE}"))


def _is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    """Whether limits of a resource may exceed its requests."""
    return is_native(name) and not _is_huge(name)


def amount(text: str | None) -> Decimal:
    """The exact value of a quantity of a canonical tree."""
    return parse(text or "0").decimal


def is_zero(text: str | None) -> bool:
    """Whether a quantity is missing or nothing."""
    return not amount(text)


def resource_name(name: str, path: Path) -> Iterator[FieldError]:
    """The name of any resource."""
    messages = list(checked(names.qualified_name, name, path))
    yield from messages
    if not messages and "/" not in name and name not in _STANDARD and not _is_huge_quota(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: Path) -> Iterator[FieldError]:
    """The name of a resource that a container can have."""
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not _is_huge(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def quantity(name: str, text: str, path: Path) -> Iterator[FieldError]:
    """An amount of a resource: not negative, and whole where it counts things."""
    value = amount(text)
    if value < 0:
        yield invalid(path, text, NEGATIVE)
    counts = name in _COUNTED or _is_extended(name)
    if counts and value < Decimal(10) ** 18 and value != int(value):
        yield invalid(path, text, NOT_INTEGER)


def requirements(obj: Tree | None, path: Path) -> Iterator[FieldError]:
    """Requests and limits of a container."""
    if not obj:
        return
    limits, requests = obj.get("limits") or {}, obj.get("requests") or {}
    for name, text in limits.items():
        at = (path / "limits")[name]
        yield from container_resource_name(name, at)
        yield from quantity(name, text, at)
    for name, text in requests.items():
        at = (path / "requests")[name]
        yield from container_resource_name(name, at)
        yield from quantity(name, text, at)
        yield from _against_limit(name, text, limits.get(name), path)
    given = {*limits, *requests}
    if any(map(_is_huge, given)) and not given.intersection(_COMPUTE):
        yield forbidden(path, "HugePages require cpu or memory")


def pod_level_resources(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Requests and limits of a pod as a whole: no less than those of its containers."""
    own = spec["resources"]
    if own.get("claims"):
        yield forbidden(path / "claims", "claims cannot be set for Resources at pod-level")
    limits, requests = own.get("limits") or {}, own.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            at = (path / part)[name]
            yield from resource_name(name, at)
            if name not in _COMPUTE and not _is_huge(name):
                yield not_supported(at, name, (*_COMPUTE, _HUGE))
            yield from quantity(name, text, at)
            if part == "requests":
                yield from _against_limit(name, text, limits.get(name), path)
    total = pod_resources({"spec": {**spec, "resources": None, "overhead": None}}, "requests")
    for name, found in total.items():
        text = requests.get(name) or "0"
        if (name in _COMPUTE or _is_huge(name)) and found.decimal > amount(text):
            detail = f"must be greater than or equal to aggregate container requests of {found}"
            yield invalid((path / "requests")[name], text, detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and amount(text) > amount(limits[name]):
                at = (path / "containers")[index][name] / "limits"
                yield invalid(
                    at, text, f"must be less than or equal to pod limits of {limits[name]}"
                )


def _against_limit(name: str, text: str, limit: str | None, path: Path) -> Iterator[FieldError]:
    if limit is None:
        if not may_overcommit(name):
            yield required(path / "limits", "Limit must be set for non overcommitable resources")
        return
    if amount(text) != amount(limit) and not may_overcommit(name):
        yield invalid(path / "requests", text, f"must be equal to {name} limit of {limit}")
    elif amount(text) > amount(limit):
        detail = f"must be less than or equal to {name} limit of {limit}"
        yield invalid(path / "requests", text, detail)
