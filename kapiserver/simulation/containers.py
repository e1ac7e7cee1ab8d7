"""The life of one simulated container: its status at one time, and at a later time.

    from        to          when
    waiting     running     its turn has come, and its image can be pulled
    running     terminated  its fate says how long it runs, a probe fails, or the pod is stopped
    terminated  running     its restart policy says so: the first time at once
    terminated  waiting     its restart policy says so, and the back-off (10 s, doubled up to 300 s)
                            is not over: CrashLoopBackOff
    waiting     running     the back-off is over
    any         waiting     all containers of the pod restart: RestartingAllContainers

The status is the only state, so a server that starts again goes on where the last one ended.
Mirrors pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kapiserver.api.accessors import name_of, namespace_of, uid_of, value_at
from kapiserver.api.scalar_types import format_duration
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.fate import KILLED, MOMENT, Fate, Role
from kapiserver.simulation.image_pulls import (
    PULL_BACK_OFF,
    PULL_ERROR,
    digest,
    full_image_name,
    image_id,
    is_pulled_anew,
)
from kapiserver.simulation.probes import seconds_to_failure, seconds_to_success
from kapiserver.simulation.streams.container_log import written_text
from kapiserver.storage.objects.lifecycle import timestamp

BACK_OFFS = (10, 20, 40, 80, 160, 300)
"""The seconds between two runs of a container that fails again and again."""
_LONG_RUN = 2 * BACK_OFFS[-1]
"""A run of more than this many seconds resets the backoff."""
CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
CRASH_BACK_OFF = "CrashLoopBackOff"
RESTARTING_ALL = "RestartingAllContainers"
RESTART_ALL = "RestartAllContainers"
"""The action of a restart rule that restarts all containers of the pod."""
_REMOVED = "The container is removed because RestartAllContainers in place"
_LOG_LINES, _LOG_BYTES = 80, 2048
"""What a kubelet takes at most from the end of a log as termination message."""
_NANOSECONDS = 1_000_000_000
_SECONDS_BY_MESSAGE = {
    f"back-off {format_duration(seconds * _NANOSECONDS)}": seconds for seconds in BACK_OFFS
}
"""Back-offs, by the beginning of the message of a container that waits for its end."""


@dataclass(frozen=True)
class Container:
    """One container of a pod."""

    pod: Tree
    spec: Tree
    fate: Fate
    role: Role = Role.MAIN

    @property
    def name(self) -> str:
        """The name of the container."""
        return self.spec.get("name") or ""

    @property
    def policy(self) -> str:
        """`Always`, `OnFailure` or `Never`: whether it runs again when it has ended."""
        if self.role is Role.EPHEMERAL:
            return "Never"
        own, of_pod = self.spec.get("restartPolicy"), value_at(self.pod, "spec", "restartPolicy")
        if own or self.role is not Role.INIT:
            return own or of_pod or "Always"
        return "Never" if of_pod == "Never" else "OnFailure"

    @property
    def waiting_reason(self) -> str:
        """Why it waits before its turn to run has come."""
        return INITIALIZING if value_at(self.pod, "spec", "initContainers") else CREATING

    def restarts(self, exit_code: int) -> bool:
        """Report whether the container runs again after an exit code."""
        if self._action(exit_code):
            return True
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)

    def restarts_all(self, exit_code: int) -> bool:
        """Report whether all containers of the pod run again after an exit code of this one."""
        return self._action(exit_code) == RESTART_ALL

    def fails(self, fate: str, probe: str) -> bool:
        """Report whether the container has a probe, and its fate says that it fails."""
        return bool(self.spec.get(probe)) and not getattr(self.fate, fate)

    def _action(self, exit_code: int) -> str:
        """Return the action of the first restart rule that an exit code matches, or ""."""
        for rule in self.spec.get("restartPolicyRules") or ():
            codes: Tree = rule.get("exitCodes") or {}
            is_listed = exit_code in (codes.get("values") or ())
            if codes.get("operator") == ("In" if is_listed else "NotIn"):
                return rule.get("action") or ""
        return ""


class Life(NamedTuple):
    """The status of a container, and the seconds until it changes by itself; None: never."""

    status: Tree
    wait: float | None = None


class End(NamedTuple):
    """How a run of a container ends; `probe` is the one that ends it, or ""."""

    time: float
    exit_code: int
    reason: str = ""
    probe: str = ""


def is_running(status: Tree) -> bool:
    """Report whether a container runs."""
    return "running" in (status.get("state") or ())


def exit_code_of(status: Tree) -> int | None:
    """Return the exit code of a container that has ended and was not started again, or None."""
    terminated = value_at(status, "state", "terminated")
    return None if terminated is None else terminated.get("exitCode") or 0


def last_exit_code_of(status: Tree) -> int | None:
    """Return the exit code of a container that does not run; None before its first end."""
    code, last = exit_code_of(status), value_at(status, "lastState", "terminated")
    if code is not None or is_running(status) or last is None:
        return code
    return last.get("exitCode") or 0


def waiting_reason_of(status: Tree) -> str:
    """Return why a container waits, or ""."""
    return value_at(status, "state", "waiting", "reason") or ""


def has_never_run(status: Tree) -> bool:
    """Report whether a container has not been started yet."""
    has_ended = value_at(status, "lastState", "terminated") is not None
    return "waiting" in (status.get("state") or ()) and not has_ended


def waiting(container: Container) -> Tree:
    """Return the status of a container that has never run."""
    status = {
        "name": container.name,
        "state": {"waiting": {"reason": container.waiting_reason}},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": container.spec.get("image") or "",
        "imageID": "",
    }
    if container.role is not Role.EPHEMERAL:
        status["started"] = False
    mounts = [_mount_status(mount) for mount in container.spec.get("volumeMounts") or ()]
    return status | ({"volumeMounts": mounts} if mounts else {})


def live(container: Container, status: Tree, now: float) -> Life:
    """Return the status of a container whose turn to run has come, after everything that is due
    has happened."""
    while True:
        state = status.get("state") or {}
        if "running" in state:
            if status.get("image") != full_image_name(container.spec.get("image") or ""):
                status = restarted(container, status, now)
            end = end_of_run(container, status)
            if end is None or end.time > now:
                return _running(container, status, end, now)
            status = _terminated(container, status, end, now)
        elif "terminated" in state:
            exit_code = state["terminated"].get("exitCode") or 0
            if not container.restarts(exit_code) or container.restarts_all(exit_code):
                return Life(status)
            status = _backing_off(container, status)
        elif (wait := _seconds_to_start(container, status, now)) > 0:
            return Life(status, wait)
        elif container.fate.image_pull_error and not _has_image(container, status):
            return _without_image(container, status, now)
        else:
            status = _started(container, status, now)


def stop(container: Container, status: Tree, now: float, grace_seconds: float = 0) -> Tree:
    """Return the status of a container when its pod has been stopped."""
    state = status.get("state") or {}
    if "running" in state:
        exit_code = container.fate.exit_code_when_stopped(grace_seconds)
        return _terminated(container, status, End(now, exit_code), now)
    last = value_at(status, "lastState", "terminated")
    if "waiting" in state and last is not None:
        return status | {"state": {"terminated": last}, "lastState": {}}
    return status


def restarted(container: Container, status: Tree, now: float) -> Tree:
    """Return the status of a running container that is stopped and started again at once, because
    its image or its resources have changed."""
    stopped = stop(container, status, now)
    return _started(container, stopped | {"lastState": stopped["state"]}, now)


def removed(container: Container, status: Tree) -> Tree:
    """Return the status of a container when all containers of its pod restart."""
    if "waiting" in (status.get("state") or ()):
        return status
    terminated = {"reason": RESTARTING_ALL, "message": _REMOVED, "exitCode": KILLED}
    return waiting(container) | {
        "state": {"waiting": {"reason": RESTARTING_ALL, "message": _REMOVED}},
        "lastState": {"terminated": terminated | {"startedAt": None, "finishedAt": None}},
        "restartCount": (status.get("restartCount") or 0) + 1,
    }


# The states.


def _seconds_to_start(container: Container, status: Tree, now: float) -> float:
    """Return the seconds until a waiting container starts: after its back-off, or when its image is
    pulled and it is created."""
    if waiting_reason_of(status) == CRASH_BACK_OFF:
        return _end_of_back_off(status) - now
    return _start_of_pod(container, now) + container.fate.start_seconds - now


def _start_of_pod(container: Container, now: float) -> float:
    start = seconds_of(value_at(container.pod, "status", "startTime"))
    return now if start is None else start


def _has_image(container: Container, status: Tree) -> bool:
    """Report whether a container needs no pull: it has run, and its policy is not Always."""
    return bool(status.get("containerID")) and not is_pulled_anew(container.spec)


def _started(container: Container, status: Tree, now: float) -> Tree:
    """Return the status of a container that starts. It has run before if it has an identity."""
    image = container.spec.get("image") or ""
    restarts = (status.get("restartCount") or 0) + bool(status.get("containerID"))
    identity = f"{uid_of(container.pod)}/{container.name}/{restarts}"
    resources: Tree = container.spec.get("resources") or {}
    status = status | {
        "state": {"running": {"startedAt": timestamp(now)}},
        "restartCount": restarts,
        "ready": False,
        "image": full_image_name(image),
        "imageID": image_id(image),
        "containerID": f"containerd://{digest(identity)}",
        "resources": {name: value for name, value in resources.items() if name != "claims"},
        "user": {"linux": _user(container)},
    }
    if container.role is not Role.EPHEMERAL:
        status["started"] = False
    if resources.get("requests"):
        status["allocatedResources"] = resources["requests"]
    return status


def _running(container: Container, status: Tree, end: End | None, now: float) -> Life:
    """Return the status of a running container: started and ready when its probes have had the
    time to succeed. An ephemeral container has no probes and is never ready."""
    times = [] if end is None else [end.time]
    if container.role is not Role.EPHEMERAL:
        started_at = _start_of_run(status) + seconds_to_success(container.spec.get("startupProbe"))
        ready_at = started_at + seconds_to_success(container.spec.get("readinessProbe"))
        started = started_at <= now and not container.fails("started", "startupProbe")
        ready = started and ready_at <= now and container.fate.ready
        status = status | {"started": started, "ready": ready}
        times += [started_at, ready_at]
    return Life(status, min((time - now for time in times if time > now), default=None))


def end_of_run(container: Container, status: Tree) -> End | None:
    """Return how and when the run of a container ends; None if nothing ends it."""
    begin, fate = _start_of_run(status), container.fate
    ends = []
    if fate.run_seconds is not None:
        exit_code = KILLED if fate.oom else fate.exit_code
        # There is no back-off before all containers restart.
        seconds = max(fate.run_seconds, MOMENT if container.restarts_all(exit_code) else 0.0)
        ends.append(End(begin + seconds, exit_code, "OOMKilled" if fate.oom else ""))
    startup: Tree = container.spec.get("startupProbe") or {}
    if container.fails("started", "startupProbe"):
        ends.append(End(begin + seconds_to_failure(startup), KILLED, probe="startup"))
    elif container.fails("live", "livenessProbe"):
        begin += seconds_to_success(startup)
        seconds = seconds_to_failure(container.spec["livenessProbe"])
        ends.append(End(begin + seconds, KILLED, probe="liveness"))
    return min(ends, default=None)


def _start_of_run(status: Tree) -> float:
    return seconds_of(status["state"]["running"].get("startedAt")) or 0.0


def _terminated(container: Container, status: Tree, end: End, now: float) -> Tree:
    """Return the status of a container whose run has ended."""
    terminated = {
        "exitCode": end.exit_code,
        "reason": end.reason or ("Error" if end.exit_code else "Completed"),
        "startedAt": status["state"]["running"].get("startedAt"),
        "finishedAt": timestamp(now),
        "containerID": status.get("containerID") or "",
    }
    if message := _termination_message(container, end.exit_code):
        terminated["message"] = message
    status = status | {"state": {"terminated": terminated}, "ready": False}
    return status if container.role is Role.EPHEMERAL else status | {"started": False}


def _termination_message(container: Container, exit_code: int) -> str:
    """Return what a container leaves in its termination message file, or else, if its policy says
    so and it fails, the end of its log."""
    message = container.fate.termination_message
    policy = container.spec.get("terminationMessagePolicy")
    if message or not exit_code or policy != "FallbackToLogsOnError":
        return message
    lines = written_text(container.pod, container.name).splitlines(keepends=True)
    return "".join(lines[-_LOG_LINES:]).encode()[-_LOG_BYTES:].decode(errors="ignore")


def _backing_off(container: Container, status: Tree) -> Tree:
    """Return the status of a container that has ended and will be started again."""
    seconds = _next_back_off(status)
    message = (
        f"back-off {format_duration(seconds * _NANOSECONDS)} restarting failed "
        f"container={container.name} pod={pod_text(container.pod)}"
    )
    return status | {
        "state": {"waiting": {"reason": CRASH_BACK_OFF, "message": message}},
        "lastState": status["state"],
    }


def pod_text(pod: Tree) -> str:
    """Return how a kubelet names a pod in messages."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def _next_back_off(status: Tree) -> int:
    """Return the back-off of a container that has just ended: none after its first run or a long
    one, otherwise the next longer one than the pause before this run."""
    ended, previous = status["state"]["terminated"], value_at(status, "lastState", "terminated")
    begin, end = seconds_of(ended.get("startedAt")), seconds_of(ended.get("finishedAt"))
    restarts = status.get("restartCount") or 0
    if not restarts or previous is None or begin is None or end is None:
        return 0
    if end - begin > _LONG_RUN:
        return 0
    pause = begin - (seconds_of(previous.get("finishedAt")) or begin)
    longer = min((seconds for seconds in BACK_OFFS if seconds > pause), default=BACK_OFFS[-1])
    return min(longer, BACK_OFFS[min(restarts, len(BACK_OFFS)) - 1])


def _end_of_back_off(status: Tree) -> float:
    """Return when a container is started again. The length of its back-off is in its message."""
    end = seconds_of(value_at(status, "lastState", "terminated", "finishedAt"))
    if end is None:
        return 0.0
    message: str = value_at(status, "state", "waiting", "message") or ""
    return end + _SECONDS_BY_MESSAGE.get(message.partition(" restarting ")[0], 0)


def _without_image(container: Container, status: Tree, now: float) -> Life:
    """Return the status of a container whose image cannot be pulled: the error for a moment, then
    the back-off, which lasts until the image can be pulled."""
    error, image = container.fate.image_pull_error, container.spec.get("image") or ""
    end = _start_of_pod(container, now) + container.fate.start_seconds + MOMENT
    if now < end:
        return Life(_waits(status, PULL_ERROR, error), end - now)
    message = f'Back-off pulling image "{image}": {PULL_ERROR}: {error}'
    return Life(_waits(status, PULL_BACK_OFF, message))


def _waits(status: Tree, reason: str, message: str) -> Tree:
    return status | {"state": {"waiting": {"reason": reason, "message": message}}}


def _user(container: Container) -> Tree:
    """Return the user that a container runs as. That of the image counts as root."""
    of_pod: Tree = value_at(container.pod, "spec", "securityContext") or {}
    own = container.spec.get("securityContext") or {}
    gid = own.get("runAsGroup", of_pod.get("runAsGroup")) or 0
    groups = {gid, *(of_pod.get("supplementalGroups") or ())}
    if of_pod.get("fsGroup") is not None:
        groups.add(of_pod["fsGroup"])
    return {
        "uid": own.get("runAsUser", of_pod.get("runAsUser")) or 0,
        "gid": gid,
        "supplementalGroups": sorted(groups),
    }


def _mount_status(mount: Tree) -> Tree:
    status = {"name": mount.get("name"), "mountPath": mount.get("mountPath")}
    if mount.get("readOnly"):
        mode = mount.get("recursiveReadOnly") or "Disabled"
        recursive = "Disabled" if mode == "Disabled" else "Enabled"
        status |= {"readOnly": True, "recursiveReadOnly": recursive}
    return status
