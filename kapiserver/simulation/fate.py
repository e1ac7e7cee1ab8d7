"""The fate of a simulated container: when it starts, how long it runs, how it ends.

Annotations of the pod say it. `simulation.kapiserver.dev/exit-code` counts for all containers but
init containers, sidecars and ephemeral ones, `simulation.kapiserver.dev/exit-code.web` for the
container `web`, whatever its role is. They may change while the pod runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from kapiserver.api.accessors import annotations_of, controller_of
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.metrics.usage import read_cpu_usage, read_memory_usage
from kapiserver.simulation.streams.answers import read_answers

MOMENT = 1.0
"""The seconds that a container runs if it ends and nothing says when."""
KILLED, INTERRUPTED = 128 + 9, 128 + 15
"""The exit codes of a container that SIGKILL or SIGTERM has ended."""


class Role(Enum):
    """What a container is in its pod."""

    MAIN = "main"
    INIT = "init"
    SIDECAR = "sidecar"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What happens to one container.

    start_seconds       how long its image is pulled and the container created
    run_seconds         how long it runs; None: until it is stopped
    stop_seconds        how long it takes to end when it is stopped
    exit_code           its exit code when it ends by itself
    started             whether its startup probe succeeds
    live                whether its liveness probe succeeds
    ready               whether its readiness probe succeeds
    oom                 whether it ends because it needs too much memory
    termination_message what it leaves in its termination message file
    image_pull_error    why its image cannot be pulled; "" if it can
    """

    start_seconds: float = 0.0
    run_seconds: float | None = None
    stop_seconds: float = 0.0
    exit_code: int = 0
    started: bool = True
    live: bool = True
    ready: bool = True
    oom: bool = False
    termination_message: str = ""
    image_pull_error: str = ""

    def exit_code_when_stopped(self, grace_seconds: float) -> int:
        """Return the exit code of the container when its pod is stopped: a server ends cleanly,
        work that would have ended by itself is interrupted, and what takes longer than the grace
        period is killed."""
        if self.stop_seconds > grace_seconds:
            return KILLED
        return 0 if self.run_seconds is None else INTERRUPTED


def _seconds(text: str) -> float:
    return min(max(float(text), 0.0), 1e9)


def _exit_code(text: str) -> int:
    return min(max(int(text), 0), 255)


def _message(text: str) -> str:
    """Return what a kubelet keeps of a termination message: at most 4096 bytes."""
    return text.encode()[:4096].decode(errors="ignore")


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READERS: Mapping[str, Any] = {
    "start-seconds": _seconds,
    "run-seconds": _seconds,
    "stop-seconds": _seconds,
    "exit-code": _exit_code,
    "started": _boolean,
    "live": _boolean,
    "ready": _boolean,
    "oom": _boolean,
    "termination-message": _message,
    "image-pull-error": str,
}
"""Reads the text of each annotation; raises ValueError or KeyError."""
_ALL_READERS: Mapping[str, Any] = {
    **_READERS,
    "cpu-usage": read_cpu_usage,
    "exec": read_answers,
    "log": str,
    "memory-usage": read_memory_usage,
    "metric": parse,
}
"""Those of the annotations that decide what a pod answers and uses, too."""


def fate_of(pod: Tree, container: str, role: Role = Role.MAIN) -> Fate:
    """Return the fate of a container of a pod. Without annotations a container runs until it is
    stopped, but an init container and a container of a Job end with exit code 0. An annotation that
    cannot be read counts as missing."""
    annotations, values = annotations_of(pod), {}
    for name, read in _READERS.items():
        text = annotations.get(f"{PREFIX}{name}.{container}")
        if text is None and role is Role.MAIN:
            text = annotations.get(f"{PREFIX}{name}")
        if text is not None:
            with suppress(ValueError, KeyError):
                values[name.replace("-", "_")] = read(text)
    fate = Fate(**values)
    if fate.run_seconds is not None:
        return fate
    if role is Role.INIT:
        return replace(fate, run_seconds=0.0)
    ends = "exit_code" in values or fate.oom or (role is Role.MAIN and _is_of_job(pod))
    return replace(fate, run_seconds=MOMENT) if ends else fate


def unreadable_annotations(pod: Tree) -> list[str]:
    """Return the annotations of a pod that ask for something which cannot be read."""
    problems = []
    for name, text in annotations_of(pod).items():
        if not name.startswith(PREFIX):
            continue
        try:
            _ALL_READERS[name.removeprefix(PREFIX).partition(".")[0]](text)
        except (ValueError, KeyError):
            problems.append(f"{name}: {text!r}")
    return problems


def _is_of_job(pod: Tree) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") == "Job"
