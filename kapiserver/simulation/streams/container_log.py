"""Makes the log of a simulated container from its status and its pod's annotations. Pure.

Each run of a container begins with a line about its image, which the lines of the annotation
`simulation.kapiserver.dev/log` follow, and ends with a line about its exit code. A line of the
annotation that begins with a time, as `kubectl logs --timestamps` prints it, belongs to the run of
that time. Mirrors ReadLogs of k8s.io/cri-client/pkg/logs and validateContainerLogStatus of
pkg/kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kapiserver.api.accessors import annotations_of, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.errors import BadRequest
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.simulation.annotations import PREFIX
from kapiserver.storage.objects.lifecycle import timestamp

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_PULL_ERRORS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class Line(NamedTuple):
    """One line of a log.

    time    seconds since 1970
    text    without the end of the line
    stream  stdout or stderr
    """

    time: float
    text: str
    stream: str = "stdout"


class Run(NamedTuple):
    """One run of a container, from its start to its end; `end` is None while it runs."""

    identity: str
    begin: float
    end: float | None
    exit_code: int


def container_status(pod: Tree, container: str) -> Tree | None:
    """Return the status of a container of any kind, or None."""
    for field in _STATUSES:
        for status in value_at(pod, "status", field) or ():
            if status.get("name") == container:
                return status  # type: ignore[no-any-return]
    return None


def run_of(pod: Tree, container: str, *, previous: bool = False) -> Run:
    """Return the run whose log a client asks for. Raises BadRequest if there is none."""
    status = container_status(pod, container)
    name = f'container "{container}" in pod "{name_of(pod)}"'
    if status is None:
        raise BadRequest(f"{name} is not available")
    state, last = status.get("state") or {}, value_at(status, "lastState", "terminated")
    if previous:
        if last is None:
            raise BadRequest(f"previous terminated {name} not found")
        return _run(status, last)
    for run in (state.get("running"), state.get("terminated"), last):
        if run is not None:
            return _run(status, run)
    reason = value_at(state, "waiting", "reason") or ""
    raise BadRequest(f"{name} is waiting to start: {_PULL_ERRORS.get(reason, reason)}")


def _run(status: Tree, state: Tree) -> Run:
    return Run(
        identity=state.get("containerID") or status.get("containerID") or "",
        begin=seconds_of(state.get("startedAt")) or 0.0,
        end=seconds_of(state.get("finishedAt")),
        exit_code=state.get("exitCode") or 0,
    )


def find_run(pod: Tree, container: str, identity: str) -> Run | None:
    """Return a run that may have ended meanwhile; None if its pod knows it no more."""
    for previous in (False, True):
        try:
            run = run_of(pod, container, previous=previous)
        except BadRequest:
            continue
        if run.identity == identity:
            return run
    return None


def lines_of(pod: Tree, container: str, run: Run) -> list[Line]:
    """Return the lines that a container has written in one run."""
    image = (container_status(pod, container) or {}).get("image") or ""
    lines = [Line(run.begin, f"simulated container {container}: started with image {image}")]
    lines += _written_lines(pod, container, run)
    if run.end is not None:
        text = f"simulated container {container}: ended with exit code {run.exit_code}"
        lines.append(Line(run.end, text))
    return lines


def _written_lines(pod: Tree, container: str, run: Run) -> Iterator[Line]:
    for line in written_text(pod, container).splitlines():
        begin, _, rest = line.partition(" ")
        time = time_of(begin)
        if time is None:
            yield Line(run.begin, line)
        elif run.begin <= time and (run.end is None or time <= run.end):
            yield Line(time, rest)


def written_text(pod: Tree, container: str) -> str:
    """Return the annotation with the lines of a container. One without a name is for all containers
    but init containers and sidecars."""
    annotations, name = annotations_of(pod), f"{PREFIX}log"
    if any(
        declared.get("name") == container for declared in value_at(pod, "spec", "containers") or ()
    ):
        return annotations.get(f"{name}.{container}", annotations.get(name, ""))
    return annotations.get(f"{name}.{container}", "")


def time_of(text: str) -> float | None:
    """Return the seconds since 1970 of a time as logs have it, or None."""
    try:
        return seconds_of(text) if "T" in text else None
    except ValueError:
        return None


def timed_line(time: float, text: str) -> str:
    """Return a line of the annotation that a container writes at a time."""
    return f"{timestamp(time)} {text}"


def selected(lines: list[Line], options: Tree, now: float) -> list[Line]:
    """Return the lines that a PodLogOptions asks for."""
    stream = (options.get("stream") or "All").lower()
    if stream != "all":
        lines = [line for line in lines if line.stream == stream]
    tail = options.get("tailLines")
    if tail is not None:
        lines = lines[max(len(lines) - tail, 0) :]
    since = _since(options, now)
    return [line for line in lines if line.time >= since]


def _since(options: Tree, now: float) -> float:
    if options.get("sinceSeconds") is not None:
        return now - float(options["sinceSeconds"])
    return time_of(options.get("sinceTime") or "") or 0.0


def text_of(lines: Iterable[Line], options: Tree) -> bytes:
    """Return lines as the client gets them."""
    prefix = (lambda line: _nanoseconds(line.time) + " ") if options.get("timestamps") else _nothing
    return "".join(f"{prefix(line)}{line.text}\n" for line in lines).encode("utf-8", "replace")


def _nothing(_line: Line) -> str:
    return ""


def _nanoseconds(time: float) -> str:
    """Return a time with nine digits of fractions, as the lines of container runtimes have it."""
    return f"{timestamp(time).removesuffix('Z')}.000000000Z"
