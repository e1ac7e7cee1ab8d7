"""The events that a kubelet writes when the status of a pod changes.

`events_between` is pure: it compares two statuses. Mirrors recordContainerEvent of
pkg/kubelet/kuberuntime and pkg/kubelet/prober, and the image manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.simulation import pod_resize
from kapiserver.simulation.containers import (
    CRASH_BACK_OFF,
    Container,
    end_of_run,
    is_running,
    pod_text,
    waiting_reason_of,
)
from kapiserver.simulation.image_pulls import PULL_BACK_OFF, PULL_ERROR, is_pulled_anew
from kapiserver.simulation.pod_life import Host, containers_of, present_statuses
from kapiserver.simulation.probes import failure_output

_SPECS = {
    "initContainerStatuses": "initContainers",
    "containerStatuses": "containers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}
_IMAGE_BYTES = 50_000_000
"""The size of every simulated image."""


class KubeletEvent(NamedTuple):
    """An event about a pod, or about one of its containers, which `field_path` names."""

    type: str
    reason: str
    message: str
    field_path: str = ""


def events_between(pod: Tree, status: Tree, host: Host) -> list[KubeletEvent]:
    """Return the events of a pod that gets a status."""
    containers_by_field = containers_of(pod, host)
    before = present_statuses(pod, containers_by_field)
    after = present_statuses(pod | {"status": status}, containers_by_field)
    events = [
        KubeletEvent(*event, f"spec.{_SPECS[field]}{{{container.name}}}")
        for field, group in containers_by_field.items()
        for container, old, new in zip(group, before[field], after[field], strict=True)
        for event in _events_of_container(pod, status, container, old, new)
    ]
    return [*_events_of_pod(pod, status), *events]


_Event = tuple[str, str, str]


def _events_of_container(
    pod: Tree, status: Tree, container: Container, old: Tree, new: Tree
) -> Iterator[_Event]:
    is_same_run = old.get("containerID") == new.get("containerID")
    if is_running(old) and not (is_running(new) and is_same_run):
        yield from _end(pod, status, container, old, new)
    if new.get("containerID") and not is_same_run:
        yield from _start(container)
    reason = waiting_reason_of(new)
    if reason != waiting_reason_of(old) or not is_same_run:
        yield from _wait(container, reason)
    if _fails_readiness(container, old, new):
        output = failure_output(container.spec["readinessProbe"], status.get("podIP") or "")
        yield ("Warning", "Unhealthy", f"Readiness probe failed: {output}")


def _start(container: Container) -> Iterator[_Event]:
    image = container.spec.get("image") or ""
    if is_pulled_anew(container.spec):
        yield ("Normal", "Pulling", f'Pulling image "{image}"')
        pulled = f'Successfully pulled image "{image}" in 0s (0s including waiting). '
        pulled += f"Image size: {_IMAGE_BYTES} bytes."
    else:
        pulled = f'Container image "{image}" already present on machine'
        pulled += " and can be accessed by the pod"
    yield ("Normal", "Pulled", pulled)
    yield ("Normal", "Created", "Container created")
    yield ("Normal", "Started", "Container started")


def _end(pod: Tree, status: Tree, container: Container, old: Tree, new: Tree) -> Iterator[_Event]:
    """Yield the events of a run that has ended: none if it ended by itself."""
    end = end_of_run(container, old)
    restarts = container.policy != "Never"
    is_finished = status.get("phase") in ("Succeeded", "Failed")
    if is_terminating(pod) or status.get("reason") or (is_finished and end is None):
        yield ("Normal", "Killing", f"Stopping container {container.name}")
    elif _is_resized(old, new):
        message = f"Container {container.name} resize requires restart"
        yield ("Normal", "Killing", message)
    elif end is None:
        message = f"Container {container.name} definition changed, will be restarted"
        yield ("Normal", "Killing", message)
    elif end.probe:
        output = failure_output(container.spec[f"{end.probe}Probe"], status.get("podIP") or "")
        yield ("Warning", "Unhealthy", f"{end.probe.capitalize()} probe failed: {output}")
        message = f"Container {container.name} failed {end.probe} probe"
        yield ("Normal", "Killing", message + (", will be restarted" if restarts else ""))


def _is_resized(old: Tree, new: Tree) -> bool:
    return is_running(new) and old.get("resources") != new.get("resources")


def _wait(container: Container, reason: str) -> Iterator[_Event]:
    image, error = container.spec.get("image") or "", container.fate.image_pull_error
    if reason == CRASH_BACK_OFF:
        message = f"Back-off restarting failed container {container.name} in pod "
        yield ("Warning", "BackOff", message + pod_text(container.pod))
    elif reason == PULL_ERROR:
        yield ("Normal", "Pulling", f'Pulling image "{image}"')
        yield ("Warning", "Failed", f'Failed to pull image "{image}": {error}')
        yield ("Warning", "Failed", f"Error: {PULL_ERROR}")
    elif reason == PULL_BACK_OFF:
        yield ("Normal", "BackOff", f'Back-off pulling image "{image}"')
        yield ("Warning", "Failed", f"Error: {PULL_BACK_OFF}")


def _fails_readiness(container: Container, old: Tree, new: Tree) -> bool:
    if not container.fails("ready", "readinessProbe"):
        return False
    begins = not old.get("started") or bool(old.get("ready"))
    return is_running(new) and bool(new.get("started")) and begins


def _events_of_pod(pod: Tree, status: Tree) -> Iterator[KubeletEvent]:
    if status.get("reason") and status.get("reason") != value_at(pod, "status", "reason"):
        yield KubeletEvent("Normal", status["reason"], status.get("message") or "")
    yield from _events_of_resize(pod, status)


def _events_of_resize(pod: Tree, status: Tree) -> Iterator[KubeletEvent]:
    old, new = (
        pod_status.get("conditions") or [] for pod_status in (pod.get("status") or {}, status)
    )
    began, progress = (find_condition(obj, pod_resize.IN_PROGRESS) for obj in (old, new))
    if progress is not None and began != progress:
        message = f"Pod resize started: {pod_resize.summary(pod)}"
        yield KubeletEvent("Normal", "ResizeStarted", message)
    if began is not None and progress is None and status.get("phase") == "Running":
        message = f"Pod resize completed: {pod_resize.summary(pod)}"
        yield KubeletEvent("Normal", "ResizeCompleted", message)
    pended, pending = (find_condition(obj, pod_resize.PENDING) for obj in (old, new))
    if pending is not None and not _is_same_pending(pended, pending):
        summary = pod_resize.summary(pod, pending.get("message") or "")
        reason = pending.get("reason") or ""
        yield KubeletEvent("Warning", f"Resize{reason}", f"Pod resize {reason}: {summary}")


def _is_same_pending(old: Tree | None, new: Tree) -> bool:
    keys = ("reason", "observedGeneration")
    return old is not None and all(old.get(key) == new.get(key) for key in keys)
