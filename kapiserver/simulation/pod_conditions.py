"""The phase and the conditions of a pod, as a kubelet derives them from its containers.

Mirrors getPhase of pkg/kubelet and pkg/kubelet/status.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kapiserver.api.accessors import generation_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.simulation.containers import (
    RESTART_ALL,
    RESTARTING_ALL,
    Container,
    has_never_run,
    is_running,
    last_exit_code_of,
    waiting_reason_of,
)
from kapiserver.simulation.fate import Role
from kapiserver.storage.objects.lifecycle import timestamp

_ALL_RESTARTING = "AllContainersRestarting"
_OWN = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
        _ALL_RESTARTING)  # fmt: skip
"""The conditions that a kubelet derives from containers; others stay."""
_NO_SANDBOX = "PodSandboxNotReady"
_COMPLETED = "PodCompleted"


class Verdict(NamedTuple):
    """The status of a condition, and why."""

    is_true: bool
    reason: str = ""
    message: str = ""


_TRUE = Verdict(True)


Statuses: TypeAlias = Sequence[tuple[Container, Tree]]
"""Containers with their statuses."""


def phase(inits: Statuses, mains: Statuses) -> str:
    """Return the phase of a pod with these init containers and containers."""
    inits = [pair for pair in inits if pair[0].role is Role.INIT]
    if any(_has_failed(container, status) for container, status in inits):
        return "Failed"
    if any(is_running(status) or has_never_run(status) for _, status in inits):
        return "Pending"
    if any(has_never_run(status) for _, status in mains):
        return "Pending"
    if any(_runs_again(container, status) for container, status in mains):
        return "Running"
    return "Failed" if any(last_exit_code_of(status) for _, status in mains) else "Succeeded"


def _runs_again(container: Container, status: Tree) -> bool:
    """Report whether a container runs, or will run again."""
    code = last_exit_code_of(status)
    return code is None or _is_restarting(status) or container.restarts(code)


def _has_failed(container: Container, status: Tree) -> bool:
    """Report whether an init container has ended badly and does not run again."""
    code = last_exit_code_of(status)
    return bool(code) and not _runs_again(container, status)


def with_conditions(pod: Tree, status: Tree, now: float) -> Tree:
    """Return the status with the conditions that follow from it. One whose status stays the same
    keeps the time of its last transition."""
    present = status.get("conditions") or []
    others = [condition for condition in present if condition.get("type") not in _OWN]
    containers_ready = _containers_ready(pod, status)
    verdicts = {
        "PodReadyToStartContainers": _sandbox(status),
        "Initialized": _initialized(pod, status),
        "Ready": _gates(pod, others) if containers_ready.is_true else containers_ready,
        "ContainersReady": containers_ready,
        "PodScheduled": _TRUE,
    }
    if _may_restart_all(pod):
        verdicts[_ALL_RESTARTING] = _all_restarting(status)
    conditions = [
        _condition(pod, find_condition(present, type_), type_, verdict, now)
        for type_, verdict in verdicts.items()
    ]
    return status | {"conditions": [*others, *conditions]}


def _condition(pod: Tree, present: Tree | None, type_: str, verdict: Verdict, now: float) -> Tree:
    condition: Tree = {
        "type": type_,
        "observedGeneration": generation_of(pod),
        "status": "True" if verdict.is_true else "False",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }
    condition |= {"reason": verdict.reason} if verdict.reason else {}
    condition |= {"message": verdict.message} if verdict.message else {}
    if present is None or present.get("status") != condition["status"]:
        return condition
    condition["lastTransitionTime"] = present.get("lastTransitionTime")
    return condition


def _sandbox(status: Tree) -> Verdict:
    """Whether the pod has its network."""
    if status.get("phase") in ("Succeeded", "Failed"):
        return Verdict(False, _NO_SANDBOX)
    if all(has_never_run(container_status) for container_status in _statuses(status)):
        return Verdict(False, _NO_SANDBOX, "no pod sandbox exists")
    return _TRUE


def _initialized(pod: Tree, status: Tree) -> Verdict:
    """Whether the init containers have ended, and the sidecars have started."""
    if status.get("phase") == "Succeeded":
        return Verdict(True, _COMPLETED)
    if not all(
        has_never_run(container_status)
        for container_status in status.get("containerStatuses") or ()
    ):
        return _TRUE
    sidecars = _sidecar_names(pod)
    incomplete = [
        container_status["name"]
        for container_status in status.get("initContainerStatuses") or ()
        if not container_status.get("started" if container_status["name"] in sidecars else "ready")
    ]
    if not incomplete:
        return _TRUE
    message = f"containers with incomplete status: {_list(incomplete)}"
    return Verdict(False, "ContainersNotInitialized", message)


def _may_restart_all(pod: Tree) -> bool:
    """Report whether a restart rule of a container restarts all containers."""
    return any(
        rule.get("action") == RESTART_ALL
        for field in ("initContainers", "containers")
        for spec in value_at(pod, "spec", field) or ()
        for rule in spec.get("restartPolicyRules") or ()
    )


def _all_restarting(status: Tree) -> Verdict:
    """Whether a restart rule has stopped all containers, and they have not begun to start."""
    if status.get("phase") in ("Succeeded", "Failed"):
        return Verdict(False, f"Pod{status['phase']}".replace("Succeeded", "Completed"))
    if not any(_is_restarting(container_status) for container_status in _statuses(status)):
        return Verdict(False)
    return Verdict(True, "RestartAllContainersStarted", "container exited with restart policy rule")


def _is_restarting(status: Tree) -> bool:
    return waiting_reason_of(status) == RESTARTING_ALL


def _containers_ready(pod: Tree, status: Tree) -> Verdict:
    """Whether all containers and sidecars are ready."""
    if status.get("phase") == "Succeeded":
        return Verdict(False, _COMPLETED)
    if status.get("phase") == "Failed":
        return Verdict(False, "PodFailed")
    ready = {
        container_status["name"]
        for container_status in _statuses(status)
        if container_status.get("ready")
    }
    mains = [spec.get("name") or "" for spec in value_at(pod, "spec", "containers") or ()]
    unready = [name for name in (*_sidecar_names(pod), *mains) if name not in ready]
    if not unready:
        return _TRUE
    return Verdict(False, "ContainersNotReady", f"containers with unready status: {_list(unready)}")


def _gates(pod: Tree, conditions: Sequence[Tree]) -> Verdict:
    """Whether the conditions that the pod's readiness gates name are true."""
    messages = []
    for gate in value_at(pod, "spec", "readinessGates") or ():
        type_ = gate.get("conditionType") or ""
        condition = find_condition(conditions, type_)
        if condition is None:
            messages.append(
                f'corresponding condition of pod readiness gate "{type_}" does not exist.'
            )
        elif condition.get("status") != "True":
            messages.append(
                f'the status of pod readiness gate "{type_}" is not "True", but '
                f"{condition.get('status')}"
            )
    return Verdict(False, "ReadinessGatesNotReady", ", ".join(messages)) if messages else _TRUE


def _statuses(status: Tree) -> list[Tree]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _sidecar_names(pod: Tree) -> list[str]:
    return [
        spec.get("name") or ""
        for spec in value_at(pod, "spec", "initContainers") or ()
        if spec.get("restartPolicy") == "Always"
    ]


def _list(names: Sequence[str]) -> str:
    """Return names as Go prints a slice."""
    return f"[{' '.join(names)}]"
