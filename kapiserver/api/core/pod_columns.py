"""What a table says of a pod: how many containers are ready, its state in a word, its restarts.

Mirrors printPod of pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kapiserver.api.columns import AGE, NAME, NONE, Column, Columns, human_duration, moment, text
from kapiserver.api.objects import is_terminating, value_at
from kapiserver.api.types import Tree

_ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Summary:
    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, status: Tree) -> None:
        """Add one container's restarts."""
        self.restarts += status.get("restartCount") or 0
        finished = value_at(status, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _is_sidecar(container: Tree | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _ended_reason(terminated: Tree) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _init_reason(status: Tree, index: int, total: int) -> str:
    state = status.get("state") or {}
    terminated, waiting = state.get("terminated"), value_at(state, "waiting", "reason")
    if terminated is not None:
        return f"Init:{_ended_reason(terminated)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _condition(pod: Tree, type_: str) -> Tree:
    conditions: Sequence[Tree] = value_at(pod, "status", "conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def _first_reason(pod: Tree) -> str:
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return value_at(pod, "status", "reason") or value_at(pod, "status", "phase") or ""


def _summary(pod: Tree) -> _Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    inits = {container.get("name"): container for container in spec.get("initContainers") or ()}
    sidecars = sum(map(_is_sidecar, inits.values()))
    found = _Summary(_first_reason(pod), total=len(spec.get("containers") or ()) + sidecars)
    afterwards = _Summary(found.reason)  # restarts that count once all is initialized
    initializing = False
    for index, init_container_status in enumerate(status.get("initContainerStatuses") or ()):
        found.count(init_container_status)
        sidecar = _is_sidecar(inits.get(init_container_status.get("name")))
        if sidecar:
            afterwards.count(init_container_status)
        terminated = value_at(init_container_status, "state", "terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and init_container_status.get("started"):
            found.ready += bool(init_container_status.get("ready"))
            continue
        found.reason = _init_reason(init_container_status, index, len(inits))
        initializing = True
        break
    if not initializing or _condition(pod, "Initialized").get("status") == "True":
        found.restarts, found.last_restart = afterwards.restarts, afterwards.last_restart
        _count_containers(pod, found)
    if is_terminating(pod):
        if status.get("reason") == "NodeLost":
            found.reason = "Unknown"
        elif status.get("phase") not in _ENDED:
            found.reason = "Terminating"
    return found


def _count_containers(pod: Tree, count_containers: _Summary) -> None:
    running = False
    for status in reversed(value_at(pod, "status", "containerStatuses") or ()):
        count_containers.count(status)
        state = status.get("state") or {}
        waiting = value_at(state, "waiting", "reason")
        if waiting:
            count_containers.reason = waiting
        elif state.get("terminated") is not None:
            count_containers.reason = _ended_reason(state["terminated"])
        elif status.get("ready") and state.get("running") is not None:
            running = True
            count_containers.ready += 1
    if running and count_containers.reason == "Completed":
        is_ready = _condition(pod, "Ready").get("status") == "True"
        count_containers.reason = "Running" if is_ready else "NotReady"


def _ready(pod: Tree, _: datetime) -> str:
    found = _summary(pod)
    return f"{found.ready}/{found.total}"


def _restarts(pod: Tree, now: datetime) -> str:
    found = _summary(pod)
    then = moment(found.last_restart)
    if found.restarts and then:
        return f"{found.restarts} ({human_duration((now - then).total_seconds())} ago)"
    return str(found.restarts)


def _ip(pod: Tree, _: datetime) -> str:
    addresses: Any = value_at(pod, "status", "podIPs") or [{}]
    return addresses[0].get("ip") or NONE


def _gates(pod: Tree, _: datetime) -> str:
    gates = value_at(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    states = [_condition(pod, gate.get("conditionType") or "").get("status") for gate in gates]
    return f"{states.count('True')}/{len(gates)}"


def _row_conditions(pod: Tree) -> list[Tree]:
    phase = value_at(pod, "status", "phase")
    if phase not in _ENDED:
        return []
    how = "successfully" if phase == "Succeeded" else "with an error"
    message = f"The pod has completed {how}."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


POD_COLUMNS = Columns(
    (
        NAME,
        Column("Ready", _ready, "Number of ready containers and number of containers."),
        Column(
            "Status", lambda pod, _: _summary(pod).reason, "State of the pod and its containers."
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
