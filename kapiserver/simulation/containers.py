"""The life of one simulated container: its status at one time, and at a later time.

    from        to          when
    waiting     running     its turn has come, and its image can be pulled
    running     terminated  its fate says how long it runs, or the pod is stopped
    terminated  running     its restart policy says so: the first time at once
    terminated  waiting     its restart policy says so, and the back-off (10 s, doubled up to 300 s)
                            is not over: CrashLoopBackOff
    waiting     running     the back-off is over

The status is the only state, so a server that starts again goes on where the last one ended.
Mirrors pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from kapiserver.api.accessors import name_of, namespace_of, uid_of, value_at
from kapiserver.api.scalar_types import format_duration
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.fate import KILLED, Fate, Role
from kapiserver.storage.objects.lifecycle import timestamp

FIRST_BACK_OFF = 10
MAX_BACK_OFF = 300
CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
_BACK_OFF = "CrashLoopBackOff"
_PULL_BACK_OFF = "ImagePullBackOff"
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Container:
    """One container of a pod.

    policy  `Always`, `OnFailure` or `Never`: whether it runs again when it has ended
    """

    pod: Tree
    spec: Tree
    fate: Fate
    policy: str
    role: Role = Role.MAIN

    @property
    def name(self) -> str:
        """The name of the container."""
        return self.spec.get("name") or ""

    def restarts(self, exit_code: int) -> bool:
        """Report whether the container runs again after an exit code."""
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)


class Life(NamedTuple):
    """The status of a container, and the seconds until it changes by itself; None: never."""

    status: Tree
    wait: float | None = None


def is_running(status: Tree) -> bool:
    """Report whether a container runs."""
    return "running" in (status.get("state") or ())


def exit_code_of(status: Tree) -> int | None:
    """Return the exit code of a container that has ended and was not started again, or None."""
    terminated = value_at(status, "state", "terminated")
    return None if terminated is None else terminated.get("exitCode") or 0


def has_never_run(status: Tree) -> bool:
    """Report whether a container has not been started yet."""
    has_ended = value_at(status, "lastState", "terminated") is not None
    return "waiting" in (status.get("state") or ()) and not has_ended


def waiting(container: Container, reason: str, message: str = "") -> Tree:
    """Return the status of a container that has never run."""
    state = {"reason": reason} | ({"message": message} if message else {})
    status = {
        "name": container.name,
        "state": {"waiting": state},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": container.spec.get("image") or "",
        "imageID": "",
        "started": False,
    }
    mounts = [_mount_status(mount) for mount in container.spec.get("volumeMounts") or ()]
    return status | ({"volumeMounts": mounts} if mounts else {})


def live(container: Container, status: Tree, now: float) -> Life:
    """Return the status of a container whose turn to run has come, after everything that is due
    has happened."""
    while True:
        state = status.get("state") or {}
        if "running" in state:
            end = _end_of_run(container, state["running"])
            if end is None or end > now:
                return _running(container, status, end, now)
            status = _ended(container, status, now)
        elif "terminated" in state:
            if not container.restarts(state["terminated"].get("exitCode") or 0):
                return Life(status)
            status = _backing_off(container, status)
        elif value_at(state, "waiting", "reason") == _BACK_OFF:
            wait = _end_of_back_off(status) - now
            if wait > 0:
                return Life(status, wait)
            status = _started(container, status, now, status.get("restartCount", 0) + 1)
        elif container.fate.image_pull_error:
            return Life(_without_image(container, status))
        elif (wait := _start_of_pod(container, now) + container.fate.start_seconds - now) > 0:
            return Life(status, wait)
        else:
            status = _started(container, status, now, status.get("restartCount", 0))


def stop(container: Container, status: Tree, now: float, grace_seconds: float = 0) -> Tree:
    """Return the status of a container when its pod has been stopped."""
    state = status.get("state") or {}
    if "running" in state:
        exit_code = container.fate.exit_code_when_stopped(grace_seconds)
        return _terminated(status, exit_code, "Error" if exit_code else "Completed", now)
    last = value_at(status, "lastState", "terminated")
    if "waiting" in state and last is not None:
        return status | {"state": {"terminated": last}, "lastState": {}}
    return status


# The states.


def _start_of_pod(container: Container, now: float) -> float:
    start = seconds_of(value_at(container.pod, "status", "startTime"))
    return now if start is None else start


def _started(container: Container, status: Tree, now: float, restarts: int) -> Tree:
    image = full_image_name(container.spec.get("image") or "")
    identity = f"{uid_of(container.pod)}/{container.name}/{restarts}"
    status = status | {
        "state": {"running": {"startedAt": timestamp(now)}},
        "restartCount": restarts,
        "ready": False,
        "started": False,
        "image": image,
        "imageID": f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{_digest(image)}",
        "containerID": f"containerd://{_digest(identity)}",
    }
    resources: Tree = container.spec.get("resources") or {}
    if resources:
        status["resources"] = resources
    if resources.get("requests"):
        status["allocatedResources"] = resources["requests"]
    return status


def _running(container: Container, status: Tree, end: float | None, now: float) -> Life:
    """Return the status of a running container: started and ready when its probes have had the
    time to succeed."""
    begin = seconds_of(status["state"]["running"].get("startedAt")) or now
    started_at = begin + _probe_seconds(container.spec.get("startupProbe"))
    ready_at = started_at + _probe_seconds(container.spec.get("readinessProbe"))
    status = status | {
        "started": started_at <= now,
        "ready": ready_at <= now and container.fate.ready,
    }
    changes = [
        time - now for time in (started_at, ready_at, end) if time is not None and time > now
    ]
    return Life(status, min(changes, default=None))


def _probe_seconds(probe: Tree | None) -> float:
    """Return the seconds until a probe that succeeds has counted as success."""
    if not probe:
        return 0.0
    repeats = (probe.get("successThreshold") or 1) - 1
    return float(
        (probe.get("initialDelaySeconds") or 0) + repeats * (probe.get("periodSeconds") or 10)
    )


def _end_of_run(container: Container, running: Tree) -> float | None:
    seconds = container.fate.run_seconds
    begin = seconds_of(running.get("startedAt"))
    return None if seconds is None or begin is None else begin + seconds


def _ended(container: Container, status: Tree, now: float) -> Tree:
    """Return the status of a container that has ended by itself."""
    if container.fate.oom:
        return _terminated(status, KILLED, "OOMKilled", now)
    exit_code = container.fate.exit_code
    return _terminated(status, exit_code, "Error" if exit_code else "Completed", now)


def _terminated(status: Tree, exit_code: int, reason: str, now: float) -> Tree:
    terminated = {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": status["state"]["running"].get("startedAt"),
        "finishedAt": timestamp(now),
        "containerID": status.get("containerID") or "",
    }
    return status | {"state": {"terminated": terminated}, "ready": False, "started": False}


def _backing_off(container: Container, status: Tree) -> Tree:
    """Return the status of a container that has ended and will be started again."""
    seconds = _back_off_seconds(status.get("restartCount") or 0)
    pod = container.pod
    message = (
        f"back-off {format_duration(seconds * _NANOSECONDS)} restarting failed "
        f"container={container.name} pod={name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
    )
    return status | {
        "state": {"waiting": {"reason": _BACK_OFF, "message": message}},
        "lastState": status["state"],
    }


def _back_off_seconds(restarts: int) -> int:
    """Return the back-off before a restart. The first restart has none."""
    return min(FIRST_BACK_OFF << min(restarts - 1, 10), MAX_BACK_OFF) if restarts else 0


def _end_of_back_off(status: Tree) -> float:
    """Return when a container is started again. One that ran for long enough before it ended is
    started at once."""
    last = value_at(status, "lastState", "terminated") or {}
    begin, end = seconds_of(last.get("startedAt")), seconds_of(last.get("finishedAt"))
    if begin is None or end is None or end - begin > 2 * MAX_BACK_OFF:
        return 0.0
    return end + _back_off_seconds(status.get("restartCount") or 0)


def _without_image(container: Container, status: Tree) -> Tree:
    image = container.spec.get("image") or ""
    message = f'Back-off pulling image "{image}": ErrImagePull: {container.fate.image_pull_error}'
    return status | {"state": {"waiting": {"reason": _PULL_BACK_OFF, "message": message}}}


def full_image_name(image: str) -> str:
    """Return the name of an image with its registry and tag, as containerd reports it."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in first and ":" not in first and first != "localhost":
        image = f"docker.io/{image}"
    has_tag = "@" in image or ":" in image.rpartition("/")[2]
    return image if has_tag else f"{image}:latest"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _mount_status(mount: Tree) -> Tree:
    status = {"name": mount.get("name"), "mountPath": mount.get("mountPath")}
    if mount.get("readOnly"):
        status |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return status
