"""Table columns of pods: ready containers, status, restarts.

Mirrors printPod of pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.columns import AGE, NAME, NONE, Age, Column, Columns, parse_time, text
from kapiserver.api.types import Tree

_TERMINAL_PHASES = ("Succeeded", "Failed")


class _Summary(Struct):
    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, status: Tree) -> None:
        """Add the restarts of a container."""
        self.restarts += status.get("restartCount") or 0
        finished = value_at(status, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _is_sidecar(container: Tree | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _terminated_reason(terminated: Tree) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _init_reason(status: Tree, index: int, total: int) -> str:
    state = status.get("state") or {}
    terminated, waiting = state.get("terminated"), value_at(state, "waiting", "reason")
    if terminated is not None:
        return f"Init:{_terminated_reason(terminated)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _condition(pod: Tree, type_: str) -> Tree:
    conditions: Sequence[Tree] = value_at(pod, "status", "conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def _initial_reason(pod: Tree) -> str:
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return value_at(pod, "status", "reason") or value_at(pod, "status", "phase") or ""


def _summarize(pod: Tree) -> _Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    init_containers = {
        container.get("name"): container for container in spec.get("initContainers") or ()
    }
    sidecars = sum(map(_is_sidecar, init_containers.values()))
    summary = _Summary(_initial_reason(pod), total=len(spec.get("containers") or ()) + sidecars)
    sidecar_restarts = _Summary(
        summary.reason
    )  # the restarts that count once the pod is initialized
    initializing = False
    for index, container_status in enumerate(status.get("initContainerStatuses") or ()):
        summary.count(container_status)
        sidecar = _is_sidecar(init_containers.get(container_status.get("name")))
        if sidecar:
            sidecar_restarts.count(container_status)
        terminated = value_at(container_status, "state", "terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container_status.get("started"):
            summary.ready += bool(container_status.get("ready"))
            continue
        summary.reason = _init_reason(container_status, index, len(init_containers))
        initializing = True
        break
    if not initializing or _condition(pod, "Initialized").get("status") == "True":
        summary.restarts, summary.last_restart = (
            sidecar_restarts.restarts,
            sidecar_restarts.last_restart,
        )
        _count_containers(pod, summary)
    if is_terminating(pod):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif status.get("phase") not in _TERMINAL_PHASES:
            summary.reason = "Terminating"
    return summary


def _count_containers(pod: Tree, summary: _Summary) -> None:
    running = False
    for status in reversed(value_at(pod, "status", "containerStatuses") or ()):
        summary.count(status)
        state = status.get("state") or {}
        waiting = value_at(state, "waiting", "reason")
        if waiting:
            summary.reason = waiting
        elif state.get("terminated") is not None:
            summary.reason = _terminated_reason(state["terminated"])
        elif status.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if running and summary.reason == "Completed":
        is_ready = _condition(pod, "Ready").get("status") == "True"
        summary.reason = "Running" if is_ready else "NotReady"


def _ready(pod: Tree) -> str:
    summary = _summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Tree) -> str | Age:
    summary = _summarize(pod)
    restart_time = parse_time(summary.last_restart)
    if summary.restarts and restart_time:
        return Age(restart_time.timestamp(), before=f"{summary.restarts} (", after=" ago)")
    return str(summary.restarts)


def _ip(pod: Tree) -> str:
    addresses: Any = value_at(pod, "status", "podIPs") or [{}]
    return addresses[0].get("ip") or NONE


def _gates(pod: Tree) -> str:
    gates = value_at(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    states = [_condition(pod, gate.get("conditionType") or "").get("status") for gate in gates]
    return f"{states.count('True')}/{len(gates)}"


def _row_conditions(pod: Tree) -> list[Tree]:
    phase = value_at(pod, "status", "phase")
    if phase not in _TERMINAL_PHASES:
        return []
    outcome = "successfully" if phase == "Succeeded" else "with an error"
    message = f"The pod has completed {outcome}."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


POD_COLUMNS = Columns(
    (
        NAME,
        Column("Ready", _ready, "Number of ready containers and number of containers."),
        Column(
            "Status", lambda pod: _summarize(pod).reason, "State of the pod and its containers."
        ),
        Column(
            "Restarts", _restarts, "Number of container restarts, and the time since the last one."
        ),
        AGE,
        Column("IP", _ip, "IP address of the pod.", priority=1),
        Column(
            "Node", text("spec", "nodeName", empty=NONE), "Node that the pod runs on.", priority=1
        ),
        Column(
            "Nominated Node",
            text("status", "nominatedNodeName", empty=NONE),
            "Node that is being freed for the pod by preemption.",
            priority=1,
        ),
        Column(
            "Readiness Gates",
            _gates,
            "Number of readiness gates that are true and number of gates.",
            priority=1,
        ),
    ),
    _row_conditions,
)
