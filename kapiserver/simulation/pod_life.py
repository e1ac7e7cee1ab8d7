"""The life of a simulated pod: the next status that a kubelet would write, and when.

    from            to          when
    bound           creating    at once: startTime, addresses, ContainerCreating
    creating        running     at once: init containers one after the other, then the others
    running         running     a container ends, restarts or becomes ready
    running         finished    no container runs or restarts, or activeDeadlineSeconds is over
    any, deleted    ended       its containers need no longer than stop-seconds and the grace period
    ended, deleted  gone        at once

`next_step` is pure. The status of the pod is its only state, so a server that starts again goes on
where the last one ended. Mirrors syncPod and generateAPIPodStatus of pkg/kubelet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kapiserver.api.accessors import (
    finalizers_of,
    generation_of,
    is_terminating,
    metadata_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import is_finished, seconds_of
from kapiserver.simulation import containers, pod_conditions
from kapiserver.simulation.containers import (
    CREATING,
    INITIALIZING,
    Container,
    Life,
    exit_code_of,
    is_running,
    live,
    stop,
)
from kapiserver.simulation.fate import Role, fate_of
from kapiserver.storage.objects.lifecycle import timestamp

_DEADLINE = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


@dataclass(frozen=True)
class Addresses:
    """The addresses of a pod and of its node; "" for one that is not known."""

    pod: str = ""
    host: str = ""


@dataclass(frozen=True)
class Step:
    """What happens to a pod next.

    status  its new status; None if it stays as it is
    wait    the seconds until the status changes by itself; None: never
    gone    whether the pod has ended and is to be removed
    """

    status: Tree | None = None
    wait: float | None = None
    gone: bool = False


def next_step(pod: Tree, addresses: Addresses, now: float) -> Step:
    """Return what happens next to a pod that is bound to a node."""
    if is_terminating(pod):
        return _deleted(pod, addresses, now)
    if is_finished(pod):
        return Step()
    start = seconds_of(value_at(pod, "status", "startTime"))
    if start is None:
        return _creating(pod, addresses, now)
    deadline = value_at(pod, "spec", "activeDeadlineSeconds")
    if deadline is not None and start + deadline <= now:
        return Step(_past_deadline(pod, addresses, now))
    step = _living(pod, addresses, now)
    if deadline is None or (step.status or {}).get("phase") in ("Succeeded", "Failed"):
        return step
    waits = [wait for wait in (step.wait, start + deadline - now) if wait is not None]
    return Step(step.status, min(waits))


# The steps.


def _creating(pod: Tree, addresses: Addresses, now: float) -> Step:
    """Return the status of a pod whose containers are being created."""
    inits, mains = init_containers(pod), main_containers(pod)
    reason = INITIALIZING if inits else CREATING
    status = _with_addresses(pod, addresses) | {"phase": "Pending", "startTime": timestamp(now)}
    if inits:
        status["initContainerStatuses"] = [containers.waiting(each, reason) for each in inits]
    status["containerStatuses"] = [containers.waiting(each, reason) for each in mains]
    return Step(pod_conditions.with_conditions(pod, status, now), 0.0)


def _living(pod: Tree, addresses: Addresses, now: float) -> Step:
    """Return the status of a pod that is neither finished nor being deleted."""
    lives, is_initialized = _initialize(pod, now)
    count = len(lives)
    for container in main_containers(pod):
        status = _status_of(pod, "containerStatuses", container)
        lives.append(live(container, status, now) if is_initialized else Life(status))
    statuses = [each.status for each in lives]
    inits, mains = statuses[:count], statuses[count:]
    phase = pod_conditions.phase(pod, inits, mains)
    if phase in ("Succeeded", "Failed"):
        pairs = zip(init_containers(pod), inits, strict=True)
        inits = [stop(sidecar, status, now) for sidecar, status in pairs]
    status = _with_containers(pod, addresses, inits, mains) | {"phase": phase}
    status = pod_conditions.with_conditions(pod, status, now)
    waits = [each.wait for each in lives if each.wait is not None]
    return Step(None if status == pod.get("status") else status, min(waits, default=None))


def _initialize(pod: Tree, now: float) -> tuple[list[Life], bool]:
    """Return the lives of the init containers, and whether the other containers may start. Each
    waits for the one before it: until it has ended well, or, if it is a sidecar, has started."""
    lives: list[Life] = []
    is_next = True
    has_begun = any(
        not containers.has_never_run(status)
        for status in value_at(pod, "status", "containerStatuses") or ()
    )
    for container in init_containers(pod):
        status = _status_of(pod, "initContainerStatuses", container)
        is_sidecar = container.role is Role.SIDECAR
        if not is_next and not (has_begun and is_sidecar):
            lives.append(Life(status))
            continue
        life = live(container, status, now)
        if is_sidecar:
            is_next = is_next and bool(life.status.get("started"))
        else:
            is_next = exit_code_of(life.status) == 0
            life = Life(life.status | {"ready": is_next}, life.wait)
        lives.append(life)
    return lives, is_next or has_begun


def _deleted(pod: Tree, addresses: Addresses, now: float) -> Step:
    """Return what happens to a pod that is being deleted: its containers are stopped, and the pod
    goes. A pod with finalizers stays without containers."""
    metadata, phase = metadata_of(pod), value_at(pod, "status", "phase")
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    wait = (seconds_of(metadata.get("deletionTimestamp")) or now) - grace - now
    wait += min(grace, max(each.fate.stop_seconds for each in main_containers(pod)))
    runs = any(is_running(status) for status in _all_statuses(pod))
    if runs and wait > 0:
        return Step(wait=wait)
    if runs or (phase == "Running" and not is_finished(pod)):
        return Step(_ended(pod, addresses, now, grace), 0.0)
    return Step(gone=bool(grace) or not finalizers_of(pod))


def _ended(pod: Tree, addresses: Addresses, now: float, grace: float) -> Tree:
    """Return the status of a pod whose containers have been stopped."""
    inits, mains = (
        [stop(each, _status_of(pod, field, each), now, grace) for each in group]
        for field, group in (
            ("initContainerStatuses", init_containers(pod)),
            ("containerStatuses", main_containers(pod)),
        )
    )
    status = _with_containers(pod, addresses, inits, mains)
    succeeded = all(exit_code_of(each) == 0 for each in mains)
    status["phase"] = "Succeeded" if succeeded else "Failed"
    return pod_conditions.with_conditions(pod, status, now)


def _past_deadline(pod: Tree, addresses: Addresses, now: float) -> Tree:
    """Return the status of a pod that has run for activeDeadlineSeconds."""
    grace = value_at(pod, "spec", "terminationGracePeriodSeconds") or 0
    status = _ended(pod, addresses, now, grace) | {"phase": "Failed"} | _DEADLINE
    return pod_conditions.with_conditions(pod, status, now)


# Containers and their statuses.


def init_containers(pod: Tree) -> list[Container]:
    """Return the init containers of a pod, with the sidecars among them."""
    policy = "Never" if value_at(pod, "spec", "restartPolicy") == "Never" else "OnFailure"
    found = []
    for spec in value_at(pod, "spec", "initContainers") or ():
        is_sidecar = spec.get("restartPolicy") == "Always"
        role = Role.SIDECAR if is_sidecar else Role.INIT
        fate = fate_of(pod, spec.get("name") or "", role)
        found.append(Container(pod, spec, fate, spec.get("restartPolicy") or policy, role))
    return found


def main_containers(pod: Tree) -> list[Container]:
    """Return the containers of a pod that are neither init containers nor sidecars."""
    policy = value_at(pod, "spec", "restartPolicy") or "Always"
    return [
        Container(
            pod, spec, fate_of(pod, spec.get("name") or ""), spec.get("restartPolicy") or policy
        )
        for spec in value_at(pod, "spec", "containers") or ()
    ]


def _all_statuses(pod: Tree) -> list[Tree]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _status_of(pod: Tree, field: str, container: Container) -> Tree:
    """Return the present status of a container."""
    for status in value_at(pod, "status", field) or ():
        if status.get("name") == container.name:
            return status  # type: ignore[no-any-return]
    has_inits = bool(value_at(pod, "spec", "initContainers"))
    return containers.waiting(container, INITIALIZING if has_inits else CREATING)


def _with_containers(
    pod: Tree, addresses: Addresses, inits: Sequence[Tree], mains: Sequence[Tree]
) -> Tree:
    status = _with_addresses(pod, addresses)
    if inits:
        status["initContainerStatuses"] = list(inits)
    status["containerStatuses"] = list(mains)
    return status


def _with_addresses(pod: Tree, addresses: Addresses) -> Tree:
    """Return the status of a pod with its addresses, which stay once they are set."""
    status = dict(pod.get("status") or {})
    status["observedGeneration"] = generation_of(pod)
    host, own = addresses.host, addresses.pod
    if value_at(pod, "spec", "hostNetwork"):
        own = host
    if host and not status.get("hostIP"):
        status |= {"hostIP": host, "hostIPs": [{"ip": host}]}
    if own and not status.get("podIP"):
        status |= {"podIP": own, "podIPs": [{"ip": own}]}
    return status
