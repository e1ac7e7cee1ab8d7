"""Resource quota evaluators: which names of `spec.hard` an object counts for, how much, in which
scopes.

Pure: the time is a parameter. Mirrors pkg/quota/v1/evaluator/core and the generic evaluators of
k8s.io/apiserver/pkg/quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, metadata_of, value_at
from kapiserver.api.core.pods.pod_affinity import affinity_terms
from kapiserver.api.core.pods.quality_of_service import quality_of_service
from kapiserver.api.core.pods.requests import Amounts, add_amounts, amounts_of, pod_resources
from kapiserver.api.core.validation.resources import is_native
from kapiserver.api.errors import BadObject
from kapiserver.api.group import Resource
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.quantity import Amount, subtract
from kapiserver.api.types import Tree

ZERO = Amount(0, 0, "DecimalSI")
_ONE = Amount(1, 0, "DecimalSI")
_COUNTED_BY_NAME = frozenset(
    (
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
        "secrets", "services",
    )
)  # fmt: skip
"""Resources that quotas count as `name`, too, not only as `count/name`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    (*_COMPUTE, *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMPUTE))
)
_REQUIRED_OF_CONTAINERS = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
_HUGEPAGES = "hugepages-"
_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEVICES_OF_ALL = 32
"""The usage of a request for all devices: the maximum number of devices of a claim."""


class _Evaluator(Struct, frozen=True):
    """The quota evaluator of a resource: usage besides the object count, matching names, scopes."""

    usage: Callable[[Tree, float], Amounts]
    matches_name: Callable[[str], bool]
    in_scope: Callable[[Tree, Tree], bool]


# Pods.


def _is_pod_resource(name: str) -> bool:
    if name in _POD_NAMES or name.startswith((_HUGEPAGES, f"requests.{_HUGEPAGES}")):
        return True
    bare = name.removeprefix("requests.")
    return bare != name and _is_extended(bare)


def _is_extended(name: str) -> bool:
    return "/" in name and not is_native(name)


def _pod_usage(pod: Tree, now: float) -> Amounts:
    if _is_finished(pod, now):
        return {"pods": ZERO}
    requests, limits = pod_resources(pod, "requests"), pod_resources(pod, "limits")
    return {"pods": _ONE, **_compute_usage(requests, limits)}


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGEPAGES):
            usage[name] = usage[f"requests.{name}"] = amount
        elif _is_extended(name):
            usage[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def _is_finished(pod: Tree, now: float) -> bool:
    if value_at(pod, "status", "phase") in ("Failed", "Succeeded"):
        return True
    metadata = metadata_of(pod)
    deletion_time = metadata.get("deletionTimestamp")
    grace_seconds = metadata.get("deletionGracePeriodSeconds")
    if deletion_time is None or grace_seconds is None:
        return False
    return bool(now > datetime.fromisoformat(deletion_time).timestamp() + grace_seconds)


def _pod_in_scope(pod: Tree, requirement: Tree) -> bool:
    spec, scope = pod.get("spec") or {}, requirement.get("scopeName")
    if scope in ("Terminating", "NotTerminating"):
        has_deadline = spec.get("activeDeadlineSeconds", -1) >= 0
        return bool(has_deadline) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (quality_of_service(pod) == "BestEffort") is (scope == "BestEffort")
    if scope == "PriorityClass":
        return _matches_class(spec.get("priorityClassName"), requirement)
    if scope == "CrossNamespacePodAffinity":
        return any(
            term.get("namespaces") or term.get("namespaceSelector") is not None
            for term in affinity_terms(spec.get("affinity") or {})
        )
    return False


def _matches_class(name: str | None, scope_requirement: Tree) -> bool:
    """Return whether the class name of an object, or its absence, matches a scope requirement."""
    scope = scope_requirement.get("scopeName") or ""
    operator = scope_requirement.get("operator") or ""
    if operator == "Exists":
        return bool(name)
    selector_requirement = {
        "key": scope,
        "operator": operator,
        "values": scope_requirement.get("values") or [],
    }
    try:
        selection = selection_of({"matchExpressions": [selector_requirement]})
    except BadObject:
        return False
    return selection is not None and selection.matches({scope: name} if name else {}, {})


# Services, persistent volume claims, resource claims.


def _service_usage(service: Tree, _: float) -> Amounts:
    spec = service.get("spec") or {}
    ports, type_ = spec.get("ports") or [], spec.get("type")
    node_ports = 0
    if type_ == "NodePort":
        node_ports = len(ports)
    elif type_ == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        node_ports = len(ports)
    return {
        "services.nodeports": Amount(node_ports, 0, "DecimalSI"),
        "services.loadbalancers": _ONE if type_ == "LoadBalancer" else ZERO,
    }


def _claim_usage(claim: Tree, _: float) -> Amounts:
    spec = claim.get("spec") or {}
    class_ = annotations_of(claim).get(_CLASS_ANNOTATION)
    if class_ is None:
        class_ = spec.get("storageClassName")
    storage = amounts_of(value_at(spec, "resources", "requests")).get("storage")
    allocated = amounts_of(value_at(claim, "status", "allocatedResources")).get("storage")
    if storage is not None and allocated is not None and allocated.decimal > storage.decimal:
        storage = allocated
    usage: Amounts = {}
    if class_:
        usage[f"{class_}{_CLASS}persistentvolumeclaims"] = _ONE
    if storage is not None:
        usage["requests.storage"] = storage
        if class_:
            usage[f"{class_}{_CLASS}requests.storage"] = storage
    return usage


def _is_claim_resource(name: str) -> bool:
    return name == "requests.storage" or name.endswith(
        (f"{_CLASS}persistentvolumeclaims", f"{_CLASS}requests.storage")
    )


def _claim_in_scope(claim: Tree, requirement: Tree) -> bool:
    if requirement.get("scopeName") != "VolumeAttributesClass":
        return False
    requested_class = value_at(claim, "spec", "volumeAttributesClassName")
    class_names = {
        requested_class,
        value_at(claim, "status", "currentVolumeAttributesClassName"),
    } - {None, ""}
    if requirement.get("operator") in ("Exists", "In"):
        return any(_matches_class(class_name, requirement) for class_name in class_names)
    return all(_matches_class(class_name, requirement) for class_name in class_names or {None})


def _device_usage(claim: Tree, _: float) -> Amounts:
    total: Amounts = {}
    for request in value_at(claim, "spec", "devices", "requests") or ():
        if request.get("exactly"):
            total = add_amounts(total, _device_request_usage(request["exactly"]))
            continue
        maximum: Amounts = {}  # one alternative is allocated: count the largest
        for alternative in request.get("firstAvailable") or ():
            for name, amount in _device_request_usage(alternative).items():
                if name not in maximum or amount.mantissa > maximum[name].mantissa:
                    maximum[name] = amount
        total = add_amounts(total, maximum)
    return total


def _device_request_usage(request: Tree) -> Amounts:
    count = _DEVICES_OF_ALL if request.get("allocationMode") == "All" else request.get("count") or 0
    return {f"{request.get('deviceClassName') or ''}{_DEVICES}": Amount(count, 0, "DecimalSI")}


_NO_SCOPE: Callable[[Tree, Tree], bool] = lambda *_: False  # noqa: E731 - a row of the table below
_EVALUATORS: Mapping[str, _Evaluator] = {
    "pods": _Evaluator(_pod_usage, _is_pod_resource, _pod_in_scope),
    "services": _Evaluator(_service_usage, _service_usage({}, 0).__contains__, _NO_SCOPE),
    "persistentvolumeclaims": _Evaluator(_claim_usage, _is_claim_resource, _claim_in_scope),
    "resourceclaims.resource.k8s.io": _Evaluator(
        _device_usage, lambda name: name.endswith(_DEVICES), _NO_SCOPE
    ),
}
_COUNT_ONLY = _Evaluator(lambda *_: {}, lambda _: False, _NO_SCOPE)


# The functions that admission and the quota controller call.


def matching_names(resource: Resource, names: Iterable[str]) -> frozenset[str]:
    """Return the names of a quota that objects of the resource count for."""
    resource_name = resource.qualified_name
    evaluator = _EVALUATORS.get(resource_name, _COUNT_ONLY)
    return frozenset(
        name
        for name in names
        if name == f"count/{resource_name}"
        or (name == resource_name and resource_name in _COUNTED_BY_NAME)
        or evaluator.matches_name(name)
    )


def is_object_count_only(resource: Resource, names: Iterable[str]) -> bool:
    """Return whether these names count objects only, regardless of the content of the objects."""
    resource_name = resource.qualified_name
    counts_by_name = resource_name in _COUNTED_BY_NAME and resource_name != "pods"
    return all(
        name == f"count/{resource_name}" or (counts_by_name and name == resource_name)
        for name in names
    )


def usage_of(resource: Resource, obj: Tree, now: float) -> Amounts:
    """Return the usage of one object. `now` is in seconds since the epoch."""
    resource_name = resource.qualified_name
    usage = {f"count/{resource_name}": _ONE}
    if resource_name in _COUNTED_BY_NAME:
        usage[resource_name] = _ONE
    return usage | _EVALUATORS.get(resource_name, _COUNT_ONLY).usage(obj, now)


def is_in_scopes(resource: Resource, obj: Tree, quota: Tree) -> bool:
    """Return whether an object is in all scopes of a quota."""
    requirements = scope_requirements(quota)
    return len(matching_scopes(resource, obj, requirements)) == len(requirements)


def matching_scopes(resource: Resource, obj: Tree, requirements: Sequence[Tree]) -> list[Tree]:
    """Return those scope selector requirements that an object satisfies."""
    in_scope = _EVALUATORS.get(resource.qualified_name, _COUNT_ONLY).in_scope
    return [requirement for requirement in requirements if in_scope(obj, requirement)]


def scope_requirements(quota: Tree) -> list[Tree]:
    """Return the scopes of a quota as scope selector requirements."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*scopes, *(value_at(spec, "scopeSelector", "matchExpressions") or ())]


def added_usage(new: Amounts, old: Amounts) -> Amounts:
    """Return by how much `new` exceeds `old`. Names that do not grow are omitted."""
    differences = {
        name: subtract(amount, old[name]) if name in old else amount for name, amount in new.items()
    }
    return {name: amount for name, amount in differences.items() if amount.mantissa > 0}


def missing_requirements(pod: Tree, names: Iterable[str]) -> str:
    """Return an error message if containers lack requests or limits that a quota with these names
    requires, else ""."""
    required = _REQUIRED_OF_CONTAINERS.intersection(names)
    if not required:
        return ""
    spec = pod.get("spec") or {}
    if value_at(spec, "resources", "requests") or value_at(spec, "resources", "limits"):
        pod_usage = _compute_usage(pod_resources(pod, "requests"), pod_resources(pod, "limits"))
        required = required.difference(pod_usage)
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = (amounts_of(resources.get(part)) for part in ("requests", "limits"))
        for name in required.difference(_compute_usage(requests, limits)):
            missing.setdefault(name, set()).add(container.get("name") or "")
    if not missing:
        return ""
    parts = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {parts}"
