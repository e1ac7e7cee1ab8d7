"""What an object counts for a ResourceQuota: which names of `spec.hard`, how much, in which scopes.

Pure: the moment is given. Mirrors pkg/quota/v1/evaluator/core and the generic evaluators of
k8s.io/apiserver/pkg/quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kapiserver.api.core.affinity import affinity_terms
from kapiserver.api.core.pod_requests import Amounts, added, amounts_of, pod_resources
from kapiserver.api.core.quality_of_service import quality_of_service
from kapiserver.api.core.validation.resources import is_native
from kapiserver.api.errors import BadObject
from kapiserver.api.group import Resource
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.objects import annotations_of, metadata_of, value_at
from kapiserver.api.quantity import Amount, minus
from kapiserver.api.types import Tree

ZERO = Amount(0, 0, "DecimalSI")
_ONE = Amount(1, 0, "DecimalSI")
_PLAIN = frozenset(
    (
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
        "secrets", "services",
    )
)  # fmt: skip
"""Counted by their bare names too, not only as `count/...`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    (*_COMPUTE, *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMPUTE))
)
_MUST_SAY = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
_HUGE = "hugepages-"
_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ALL_DEVICES = 32
"""What a request for all devices counts: as many as a claim can get."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How objects of one resource count beside their number."""

    uses: Callable[[Tree, float], Amounts]
    names: Callable[[str], bool]
    in_scope: Callable[[Tree, Tree], bool]


# Pods.


def _pod_name(name: str) -> bool:
    if name in _POD_NAMES or name.startswith((_HUGE, f"requests.{_HUGE}")):
        return True
    bare = name.removeprefix("requests.")
    return bare != name and _extended(bare)


def _extended(name: str) -> bool:
    return "/" in name and not is_native(name)


def _pod(pod: Tree, now: float) -> Amounts:
    if _has_ended(pod, now):
        return {"pods": ZERO}
    requests, limits = pod_resources(pod, "requests"), pod_resources(pod, "limits")
    return {"pods": _ONE, **_computed(requests, limits)}


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    found: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE):
            found[name] = found[f"requests.{name}"] = amount
        elif _extended(name):
            found[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _has_ended(pod: Tree, now: float) -> bool:
    if value_at(pod, "status", "phase") in ("Failed", "Succeeded"):
        return True
    meta = metadata_of(pod)
    asked, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if asked is None or grace is None:
        return False
    return bool(now > datetime.fromisoformat(asked).timestamp() + grace)


def _pod_scope(pod: Tree, condition: Tree) -> bool:
    spec, scope = pod.get("spec") or {}, condition.get("scopeName")
    if scope in ("Terminating", "NotTerminating"):
        ends = spec.get("activeDeadlineSeconds", -1) >= 0
        return bool(ends) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (quality_of_service(pod) == "BestEffort") is (scope == "BestEffort")
    if scope == "PriorityClass":
        return _named(spec.get("priorityClassName"), condition)
    if scope == "CrossNamespacePodAffinity":
        return any(
            term.get("namespaces") or term.get("namespaceSelector") is not None
            for term in affinity_terms(spec.get("affinity") or {})
        )
    return False


def _named(name: str | None, condition: Tree) -> bool:
    """Whether the class that an object names (or none) is one of the condition's."""
    scope, operator = condition.get("scopeName") or "", condition.get("operator") or ""
    if operator == "Exists":
        return bool(name)
    requirement = {"key": scope, "operator": operator, "values": condition.get("values") or []}
    try:
        selection = selection_of({"matchExpressions": [requirement]})
    except BadObject:
        return False
    return selection is not None and selection.matches({scope: name} if name else {}, {})


# Services, claims of volumes and of devices.


def _service(service: Tree, _: float) -> Amounts:
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or [], spec.get("type")
    on_nodes = 0
    if kind == "NodePort":
        on_nodes = len(ports)
    elif kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        on_nodes = len(ports)
    return {
        "services.nodeports": Amount(on_nodes, 0, "DecimalSI"),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else ZERO,
    }


def _claim(claim: Tree, _: float) -> Amounts:
    spec = claim.get("spec") or {}
    class_ = annotations_of(claim).get(_CLASS_ANNOTATION)
    if class_ is None:
        class_ = spec.get("storageClassName")
    storage = amounts_of(value_at(spec, "resources", "requests")).get("storage")
    allocated = amounts_of(value_at(claim, "status", "allocatedResources")).get("storage")
    if storage is not None and allocated is not None and allocated.decimal > storage.decimal:
        storage = allocated
    found: Amounts = {}
    if class_:
        found[f"{class_}{_CLASS}persistentvolumeclaims"] = _ONE
    if storage is not None:
        found["requests.storage"] = storage
        if class_:
            found[f"{class_}{_CLASS}requests.storage"] = storage
    return found


def _claim_name(name: str) -> bool:
    return name == "requests.storage" or name.endswith(
        (f"{_CLASS}persistentvolumeclaims", f"{_CLASS}requests.storage")
    )


def _claim_scope(claim: Tree, condition: Tree) -> bool:
    if condition.get("scopeName") != "VolumeAttributesClass":
        return False
    wanted = value_at(claim, "spec", "volumeAttributesClassName")
    named = {wanted, value_at(claim, "status", "currentVolumeAttributesClassName")} - {None, ""}
    if condition.get("operator") in ("Exists", "In"):
        return any(_named(one, condition) for one in named)
    return all(_named(one, condition) for one in named or {None})


def _devices(claim: Tree, _: float) -> Amounts:
    total: Amounts = {}
    for request in value_at(claim, "spec", "devices", "requests") or ():
        if request.get("exactly"):
            total = added(total, _device(request["exactly"]))
            continue
        maximum: Amounts = {}  # one of them is chosen: the most that may be
        for one in request.get("firstAvailable") or ():
            for name, amount in _device(one).items():
                if name not in maximum or amount.mantissa > maximum[name].mantissa:
                    maximum[name] = amount
        total = added(total, maximum)
    return total


def _device(request: Tree) -> Amounts:
    count = _ALL_DEVICES if request.get("allocationMode") == "All" else request.get("count") or 0
    return {f"{request.get('deviceClassName') or ''}{_DEVICES}": Amount(count, 0, "DecimalSI")}


_NO_SCOPE: Callable[[Tree, Tree], bool] = lambda *_: False  # noqa: E731
_KINDS: Mapping[str, _Kind] = {
    "pods": _Kind(_pod, _pod_name, _pod_scope),
    "services": _Kind(_service, _service({}, 0).__contains__, _NO_SCOPE),
    "persistentvolumeclaims": _Kind(_claim, _claim_name, _claim_scope),
    "resourceclaims.resource.k8s.io": _Kind(
        _devices, lambda name: name.endswith(_DEVICES), _NO_SCOPE
    ),
}
_ALONE = _Kind(lambda *_: {}, lambda _: False, _NO_SCOPE)


# What quotas ask.


def counted_names(resource: Resource, names: Iterable[str]) -> frozenset[str]:
    """Those of a quota's names that objects of the resource count for."""
    own = resource.qualified_name
    kind = _KINDS.get(own, _ALONE)
    return frozenset(
        name
        for name in names
        if name == f"count/{own}" or (name == own and own in _PLAIN) or kind.names(name)
    )


def is_counted_whole(resource: Resource, names: Iterable[str]) -> bool:
    """Whether the number of objects is all that these names ask, whatever the objects say."""
    own = resource.qualified_name
    bare = own in _PLAIN and own != "pods"
    return all(name == f"count/{own}" or (bare and name == own) for name in names)


def usage_of(resource: Resource, obj: Tree, now: float) -> Amounts:
    """All that one object counts for; `now` in seconds since the epoch."""
    own = resource.qualified_name
    found = {f"count/{own}": _ONE}
    if own in _PLAIN:
        found[own] = _ONE
    return found | _KINDS.get(own, _ALONE).uses(obj, now)


def is_in_scopes(resource: Resource, obj: Tree, quota: Tree) -> bool:
    """Whether an object is in all scopes of a quota."""
    in_scope = _KINDS.get(resource.qualified_name, _ALONE).in_scope
    return all(in_scope(obj, condition) for condition in conditions_of(quota))


def conditions_of(quota: Tree) -> list[Tree]:
    """The scopes of a quota, plain ones as conditions."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*plain, *(value_at(spec, "scopeSelector", "matchExpressions") or ())]


def growth(new: Amounts, old: Amounts) -> Amounts:
    """How much more `new` is, nothing where it is less; what is nothing is left out."""
    more = {name: minus(one, old[name]) if name in old else one for name, one in new.items()}
    return {name: one for name, one in more.items() if one.mantissa > 0}


def silent_containers(pod: Tree, names: Iterable[str]) -> str:
    """What is wrong with a pod whose containers do not say how much they take of what a quota
    limits; "" where nothing is."""
    wanted = _MUST_SAY.intersection(names)
    if not wanted:
        return ""
    spec = pod.get("spec") or {}
    if value_at(spec, "resources", "requests") or value_at(spec, "resources", "limits"):
        said = _computed(pod_resources(pod, "requests"), pod_resources(pod, "limits"))
        wanted = wanted.difference(said)
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = (amounts_of(resources.get(part)) for part in ("requests", "limits"))
        for name in wanted.difference(_computed(requests, limits)):
            missing.setdefault(name, set()).add(container.get("name") or "")
    if not missing:
        return ""
    listed = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {listed}"
