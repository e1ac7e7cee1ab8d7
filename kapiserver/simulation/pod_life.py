"""The life of a simulated pod: the next status that a kubelet would write, and when.

    from            to          when
    bound           creating    at once: startTime, addresses, ContainerCreating
    creating        running     at once: init containers one after the other, then the others
    running         running     a container ends, restarts or becomes ready
    running         finished    no container runs or restarts, or activeDeadlineSeconds is over
    running         creating    a restart rule restarts all containers
    any, deleted    ended       its containers need no longer than stop-seconds and the grace period
    ended, deleted  gone        at once

`next_step` is pure. The status of the pod is its only state, so a server that starts again goes on
where the last one ended. Mirrors syncPod and generateAPIPodStatus of pkg/kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kapiserver.api.accessors import (
    finalizers_of,
    generation_of,
    is_terminating,
    metadata_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import is_finished, seconds_of
from kapiserver.simulation import containers, pod_conditions, pod_resize
from kapiserver.simulation.containers import (
    RESTARTING_ALL,
    Container,
    Life,
    exit_code_of,
    is_running,
    live,
    stop,
    waiting_reason_of,
)
from kapiserver.simulation.fate import Role, fate_of
from kapiserver.simulation.image_pulls import pull_error
from kapiserver.storage.objects.lifecycle import timestamp

_DEADLINE = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}
INITS, MAINS, EPHEMERALS = (
    "initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses",
)  # fmt: skip
Statuses = dict[str, list[Tree]]
"""The statuses of containers, by their field in the status of a pod."""


@dataclass(frozen=True)
class Host:
    """What the node of a pod decides about it.

    pod_ips         the addresses of the pod, at most one of each family
    host_ips        the addresses of the node
    missing_images  the full names of images that the node cannot pull
    refusal         why the node has no room for other resources of the pod; "" if it has
    has_volumes     whether the node has the volumes of the pod; without them no container starts
    """

    pod_ips: Sequence[str] = ()
    host_ips: Sequence[str] = ()
    missing_images: frozenset[str] = frozenset()
    refusal: str = ""
    has_volumes: bool = True


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


def next_step(pod: Tree, host: Host, now: float) -> Step:
    """Return what happens next to a pod that is bound to a node."""
    if is_terminating(pod):
        return _deleted(pod, host, now)
    if is_finished(pod):
        return Step()
    start = seconds_of(value_at(pod, "status", "startTime"))
    if start is None:
        return _creating(pod, host, now)
    deadline = value_at(pod, "spec", "activeDeadlineSeconds")
    if deadline is not None and start + deadline <= now:
        return Step(_past_deadline(pod, host, now))
    if not host.has_volumes and not _has_started(pod):
        return Step(wait=None if deadline is None else start + deadline - now)
    step = _living(pod, host, now)
    if deadline is None or (step.status or {}).get("phase") in ("Succeeded", "Failed"):
        return step
    waits = [wait for wait in (step.wait, start + deadline - now) if wait is not None]
    return Step(step.status, min(waits))


# The steps.


def _creating(pod: Tree, host: Host, now: float) -> Step:
    """Return the status of a pod whose containers are being created."""
    statuses = {
        field: [containers.waiting(container) for container in group]
        for field, group in containers_of(pod, host).items()
    }
    status = _with_statuses(pod, host, statuses)
    status |= {"phase": "Pending", "startTime": timestamp(now)}
    return Step(pod_conditions.with_conditions(pod, status, now), 0.0)


def _living(pod: Tree, host: Host, now: float) -> Step:
    """Return the status of a pod that is neither finished nor being deleted."""
    groups = containers_of(pod_resize.with_present_resources(pod) if host.refusal else pod, host)
    lives = _lives(pod, groups, now)
    statuses = {field: [life.status for life in group] for field, group in lives.items()}
    waits = [life.wait for group in lives.values() for life in group if life.wait is not None]
    if _restarts_all(groups, statuses):
        removed = _mapped(containers.removed, groups, statuses)
        statuses, waits = statuses | {field: removed[field] for field in (INITS, MAINS)}, [0.0]
    pairs = {field: list(zip(groups[field], statuses[field], strict=True)) for field in groups}
    phase = pod_conditions.phase(pairs[INITS], pairs[MAINS])
    if phase in ("Succeeded", "Failed"):
        statuses = _stopped(groups, statuses, now, fields=(INITS, EPHEMERALS))
    status = _with_statuses(pod, host, statuses) | {"phase": phase}
    specified = [container for group in containers_of(pod, host).values() for container in group]
    status = pod_resize.resize(pod, specified, status, host.refusal, now)
    status = pod_conditions.with_conditions(pod, status, now)
    if status == pod.get("status"):
        return Step(wait=min(waits, default=None))
    is_resizing = pod_resize.is_resizing(status)
    return Step(status, 0.0 if is_resizing else min(waits, default=None))


def _lives(pod: Tree, groups: dict[str, list[Container]], now: float) -> dict[str, list[Life]]:
    """Return the lives of the containers of a pod: init containers in order, the others when the
    pod is initialized, ephemeral ones at once."""
    inits, is_initialized = _initialize(pod, groups[INITS], now)
    return {
        INITS: inits,
        MAINS: [
            live(container, _status_of(pod, MAINS, container), now)
            if is_initialized
            else Life(_status_of(pod, MAINS, container))
            for container in groups[MAINS]
        ],
        EPHEMERALS: [live(container, _status_of(pod, EPHEMERALS, container), now)
                     for container in groups[EPHEMERALS]],
    }  # fmt: skip


def _initialize(pod: Tree, inits: Sequence[Container], now: float) -> tuple[list[Life], bool]:
    """Return the lives of the init containers, and whether the other containers may start. Each
    waits for the one before it: until it has ended well, or, if it is a sidecar, has started."""
    lives: list[Life] = []
    is_next = True
    has_begun = any(_has_begun(status) for status in value_at(pod, "status", MAINS) or ())
    for container in inits:
        status = _status_of(pod, INITS, container)
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


def _has_started(pod: Tree) -> bool:
    """Report whether any container of a pod has been started."""
    statuses = (
        container_status
        for field in (INITS, MAINS)
        for container_status in value_at(pod, "status", field) or ()
    )
    return any(_has_begun(status) for status in statuses)


def _has_begun(status: Tree) -> bool:
    """Report whether a container has been started, after the last restart of all containers."""
    never = containers.has_never_run(status)
    return not never and waiting_reason_of(status) != RESTARTING_ALL


def _restarts_all(groups: dict[str, list[Container]], statuses: Statuses) -> bool:
    """Report whether a container has ended so that all containers restart."""
    return any(
        (code := exit_code_of(status)) is not None and container.restarts_all(code)
        for field in (INITS, MAINS)
        for container, status in zip(groups[field], statuses[field], strict=True)
    )


def _deleted(pod: Tree, host: Host, now: float) -> Step:
    """Return what happens to a pod that is being deleted: its containers are stopped, sidecars
    after the others, and the pod goes. A pod with finalizers stays without containers."""
    metadata, phase = metadata_of(pod), value_at(pod, "status", "phase")
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    begin = (seconds_of(metadata.get("deletionTimestamp")) or now) - grace
    groups = containers_of(pod, host)
    statuses = present_statuses(pod, groups)
    ends = _ends_of_stop(groups, statuses, begin, grace)
    if (last := max(ends.values(), default=now)) > now:
        due = {name for name, end in ends.items() if end <= now}
        statuses = _stopped(groups, statuses, now, grace, due)
        status = _with_statuses(pod, host, statuses)
        status = pod_conditions.with_conditions(pod, status, now) if due else status
        wait = min(end for end in (*ends.values(), last) if end > now) - now
        return Step(status if due else None, wait)
    if ends or (phase == "Running" and not is_finished(pod)):
        return Step(_ended(pod, host, now, grace), 0.0)
    return Step(gone=bool(grace) or not finalizers_of(pod))


def _ends_of_stop(
    groups: dict[str, list[Container]], statuses: Statuses, begin: float, grace: float
) -> dict[str, float]:
    """Return when each running container has stopped, by name: all at the same time, but sidecars
    after the others, the last one first."""
    pairs = [
        pair for field, group in groups.items() for pair in zip(group, statuses[field], strict=True)
    ]
    sidecars = [pair for pair in pairs if pair[0].role is Role.SIDECAR]
    ordinary = [pair for pair in pairs if pair[0].role is not Role.SIDECAR]
    ends, last = {}, begin
    for container, status in (*ordinary, *reversed(sidecars)):
        if not is_running(status):
            last = max(last, _finished_at(status))
            continue
        start = last if container.role is Role.SIDECAR else begin
        ends[container.name] = min(begin + grace, start + _seconds_to_stop(container))
        last = max(last, ends[container.name])
    return ends


def _finished_at(status: Tree) -> float:
    return seconds_of(value_at(status, "state", "terminated", "finishedAt")) or 0.0


def _seconds_to_stop(container: Container) -> float:
    """Return how long a container needs to stop, with the sleep of its preStop hook."""
    sleep = value_at(container.spec, "lifecycle", "preStop", "sleep", "seconds") or 0
    return container.fate.stop_seconds + float(sleep)


def _ended(pod: Tree, host: Host, now: float, grace: float) -> Tree:
    """Return the status of a pod whose containers have been stopped."""
    groups = containers_of(pod, host)
    statuses = _stopped(groups, present_statuses(pod, groups), now, grace)
    status = _with_statuses(pod, host, statuses)
    succeeded = all(exit_code_of(container_status) == 0 for container_status in statuses[MAINS])
    status["phase"] = "Succeeded" if succeeded else "Failed"
    status = pod_resize.without_conditions(status)
    return pod_conditions.with_conditions(pod, status, now)


def _past_deadline(pod: Tree, host: Host, now: float) -> Tree:
    """Return the status of a pod that has run for activeDeadlineSeconds."""
    grace = value_at(pod, "spec", "terminationGracePeriodSeconds") or 0
    status = _ended(pod, host, now, grace) | {"phase": "Failed"} | _DEADLINE
    return pod_conditions.with_conditions(pod, status, now)


# Containers and their statuses.


def containers_of(pod: Tree, host: Host) -> dict[str, list[Container]]:
    """Return the containers of a pod, by the field of their statuses and in the order of these:
    init containers as in the spec, the others by name."""
    fields = ((INITS, "initContainers"), (MAINS, "containers"), (EPHEMERALS, "ephemeralContainers"))
    groups = {}
    for statuses, specs in fields:
        group = value_at(pod, "spec", specs) or ()
        ordered = group if statuses == INITS or len(group) < 2 else sorted(group, key=_name)
        groups[statuses] = [_container(pod, host, statuses, spec) for spec in ordered]
    return groups


def _container(pod: Tree, host: Host, statuses: str, spec: Tree) -> Container:
    role = {MAINS: Role.MAIN, EPHEMERALS: Role.EPHEMERAL}.get(statuses, Role.INIT)
    if role is Role.INIT and spec.get("restartPolicy") == "Always":
        role = Role.SIDECAR
    fate = fate_of(pod, _name(spec), role)
    if host.missing_images and not fate.image_pull_error:
        error = pull_error(spec.get("image") or "", host.missing_images)
        fate = replace(fate, image_pull_error=error)
    return Container(pod, spec, fate, role)


def _name(spec: Tree) -> str:
    return spec.get("name") or ""


def present_statuses(pod: Tree, groups: dict[str, list[Container]]) -> Statuses:
    """Return the present statuses of the containers of a pod."""
    return {
        field: [_status_of(pod, field, container) for container in groups[field]]
        for field in groups
    }


def _status_of(pod: Tree, field: str, container: Container) -> Tree:
    """Return the present status of a container."""
    for status in value_at(pod, "status", field) or ():
        if status.get("name") == container.name:
            return status  # type: ignore[no-any-return]
    return containers.waiting(container)


def _mapped(
    change: Callable[[Container, Tree], Tree],
    groups: dict[str, list[Container]],
    statuses: Statuses,
) -> Statuses:
    """Return the statuses with a function applied to each container and its status."""
    return {
        field: [change(*pair) for pair in zip(group, statuses[field], strict=True)]
        for field, group in groups.items()
    }


def _stopped(
    groups: dict[str, list[Container]],
    statuses: Statuses,
    now: float,
    grace: float = 0,
    names: Iterable[str] | None = None,
    fields: Sequence[str] = (INITS, MAINS, EPHEMERALS),
) -> Statuses:
    """Return the statuses with the containers of these fields stopped, or those of these names."""

    def change(container: Container, status: Tree) -> Tree:
        if names is not None and container.name not in names:
            return status
        return stop(container, status, now, grace)

    stopped = _mapped(change, groups, statuses)
    return statuses | {field: stopped[field] for field in fields}


def _with_statuses(pod: Tree, host: Host, statuses: Statuses) -> Tree:
    """Return the status of a pod with its addresses and these statuses of containers."""
    status = _with_addresses(pod, host)
    for field, group in statuses.items():
        if group:
            status[field] = group
    return status


def _with_addresses(pod: Tree, host: Host) -> Tree:
    """Return the status of a pod with its addresses, which stay once they are set."""
    status = dict(pod.get("status") or {})
    status["observedGeneration"] = generation_of(pod)
    of_host = bool(value_at(pod, "spec", "hostNetwork"))
    own = host.host_ips if of_host else host.pod_ips
    if host.host_ips and not status.get("hostIP"):
        ips = [{"ip": ip} for ip in host.host_ips]
        status |= {"hostIP": host.host_ips[0], "hostIPs": ips}
    if own and not status.get("podIP"):
        status |= {"podIP": own[0], "podIPs": [{"ip": ip} for ip in own]}
    return status
