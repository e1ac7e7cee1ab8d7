"""The resize of a running pod in place: what a kubelet does when resources in the spec change.

    from                    to                      when
    resized                 allocated               the node has room: PodResizeInProgress
    resized                 pending                 it has none: PodResizePending, Deferred
    pending                 allocated               other pods have left the node
    allocated               done                    at once: the containers have the new resources

All functions are pure; the status of the pod is the only state. Mirrors pkg/kubelet/allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import orjson

from kapiserver.api.accessors import generation_of, value_at
from kapiserver.api.core.pods.requests import amounts_of
from kapiserver.api.quantity import Amount
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.simulation.containers import Container, is_running, restarted
from kapiserver.simulation.fate import Role
from kapiserver.storage.objects.lifecycle import timestamp

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
DEFERRED = "Deferred"
_RESIZED = ("cpu", "memory")


def wants_room(pod: Tree) -> bool:
    """Report whether containers of a pod are to get other resources, which the node has not
    allocated yet."""
    return _is_resized(pod) and not _is_allocated(pod)


def is_deferred(pod: Tree) -> bool:
    """Report whether a resize waits for room on the node."""
    condition = _condition_of(pod.get("status") or {}, PENDING)
    return condition is not None and condition.get("reason") == DEFERRED


def is_resizing(status: Tree) -> bool:
    """Report whether the node has allocated other resources, which containers do not have yet."""
    return _condition_of(status, IN_PROGRESS) is not None


def without_conditions(status: Tree) -> Tree:
    """Return the status of a pod without what it says about resizes."""
    return _without(status, PENDING, IN_PROGRESS)


def with_present_resources(pod: Tree) -> Tree:
    """Return a pod whose containers ask for the resources that they have. What starts while a
    resize is pending gets these."""
    present = {status.get("name"): status for status in _statuses(pod)}
    spec = dict(pod.get("spec") or {})
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_with_present(container, present) for container in spec[field] or ()]
    return pod | {"spec": spec}


def resize(
    pod: Tree, containers: Sequence[Container], status: Tree, refusal: str, now: float
) -> Tree:
    """Return the status after the next step of a resize; `refusal` says why the node has no room
    for what the pod asks for, "" if it has."""
    if not _is_resized(pod):
        return without_conditions(status)
    if _is_allocated(pod):
        return _actuated(containers, without_conditions(status), now)
    if refusal:
        return _with(pod, status, PENDING, now, DEFERRED, refusal)
    status = _with(pod, without_conditions(status), IN_PROGRESS, now)
    return _mapped(status, containers, _allocated)


def summary(pod: Tree, error: str = "") -> str:
    """Return the resources of a pod as the events of a resize show them."""
    spec = pod.get("spec") or {}
    report: Tree = {
        field: [
            {"name": container.get("name"), "resources": container.get("resources") or {}}
            for container in spec.get(field) or ()
        ]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    report["generation"] = generation_of(pod)
    return orjson.dumps(report | ({"error": error} if error else {})).decode()


# Containers.


def _is_resized(pod: Tree) -> bool:
    present = {status.get("name"): status for status in _statuses(pod) if is_running(status)}
    return any(
        spec.get("name") in present
        and _changed(spec.get("resources") or {}, present[spec.get("name")].get("resources") or {})
        for spec in _specs(pod)
    )


def _is_allocated(pod: Tree) -> bool:
    condition = _condition_of(pod.get("status") or {}, IN_PROGRESS)
    return condition is not None and condition.get("observedGeneration") == generation_of(pod)


def _changed(requested: Tree, present: Tree) -> list[str]:
    """Return the resources whose request or limit changes."""
    if requested == present:
        return []
    pairs = [
        (amounts_of(requested.get(kind)), amounts_of(present.get(kind)))
        for kind in ("requests", "limits")
    ]
    return [
        name
        for name in _RESIZED
        if any(_value(new.get(name)) != _value(old.get(name)) for new, old in pairs)
    ]


def _value(amount: Amount | None) -> Decimal | None:
    return None if amount is None else amount.decimal


def _allocated(container: Container, status: Tree) -> Tree:
    requests = value_at(container.spec, "resources", "requests")
    return status | ({"allocatedResources": requests} if requests else {})


def _actuated(containers: Sequence[Container], status: Tree, now: float) -> Tree:
    def actuate(container: Container, present: Tree) -> Tree:
        requested = container.spec.get("resources") or {}
        changed = _changed(requested, present.get("resources") or {})
        present = _allocated(container, present | {"resources": requested})
        if any(_needs_restart(container.spec, name) for name in changed):
            return restarted(container, present, now)
        return present

    return _mapped(status, containers, actuate)


def _needs_restart(spec: Tree, resource: str) -> bool:
    return any(
        policy.get("resourceName") == resource and policy.get("restartPolicy") == "RestartContainer"
        for policy in spec.get("resizePolicy") or ()
    )


def _mapped(
    status: Tree, containers: Sequence[Container], change: Callable[[Container, Tree], Tree]
) -> Tree:
    """Return the status with a function applied to the status of each running container."""
    by_name = {
        container.name: container
        for container in containers
        if container.role is not Role.EPHEMERAL
    }
    changed = dict(status)
    for field in ("initContainerStatuses", "containerStatuses"):
        if field in status:
            changed[field] = [
                change(by_name[container_status["name"]], container_status)
                if is_running(container_status) and container_status["name"] in by_name
                else container_status
                for container_status in status[field]
            ]
    return changed


def _with_present(spec: Tree, present: Mapping[object, Tree]) -> Tree:
    status = present.get(spec.get("name"))
    if status is None or "resources" not in status:
        return spec
    return spec | {"resources": status["resources"]}


def _specs(pod: Tree) -> Iterator[Tree]:
    for field in ("initContainers", "containers"):
        yield from value_at(pod, "spec", field) or ()


def _statuses(pod: Tree) -> Iterator[Tree]:
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from value_at(pod, "status", field) or ()


# Conditions.


def _condition_of(status: Tree, type_: str) -> Tree | None:
    return find_condition(status.get("conditions") or [], type_)


def _without(status: Tree, *types: str) -> Tree:
    present = status.get("conditions") or []
    remaining = [condition for condition in present if condition.get("type") not in types]
    return status if len(remaining) == len(present) else status | {"conditions": remaining}


def _with(
    pod: Tree, status: Tree, type_: str, now: float, reason: str = "", message: str = ""
) -> Tree:
    """Return the status with a condition that is true."""
    old = _condition_of(status, type_)
    condition = {
        "type": type_,
        "observedGeneration": generation_of(pod),
        "status": "True",
        "lastProbeTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
    }
    condition |= {"reason": reason} if reason else {}
    condition |= {"message": message} if message else {}
    if old is not None and old.get("reason") == condition.get("reason"):
        condition["lastTransitionTime"] = old.get("lastTransitionTime")
        if _is_same(old, condition):
            return status
    status = _without(status, type_)
    return status | {"conditions": [condition, *(status.get("conditions") or [])]}


def _is_same(old: Tree, new: Tree) -> bool:
    """Report whether two conditions differ in the time of their last probe only."""
    return old | {"lastProbeTime": None} == new | {"lastProbeTime": None}
