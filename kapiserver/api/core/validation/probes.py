"""Rules for probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import chosen, needed, not_negative, port_or_name
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.types import Tree

_COUNTS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
    "failureThreshold",
)  # fmt: skip


def probes(container: Tree, path: Path, grace: int) -> Iterator[FieldError]:
    """Lifecycle hooks and all three probes of a container, in order."""
    yield from _lifecycle(container.get("lifecycle"), path / "lifecycle", grace)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = path / name
        yield from _probe(probe, at, grace)
        if name == "readinessProbe":
            period = probe.get("terminationGracePeriodSeconds")
            if period is not None:
                detail = "must not be set for readinessProbes"
                yield invalid(at / "terminationGracePeriodSeconds", period, detail)
        elif probe.get("successThreshold") != 1:
            yield invalid(at / "successThreshold", probe.get("successThreshold") or 0, "must be 1")


def _lifecycle(lifecycle: Tree | None, path: Path, grace: int) -> Iterator[FieldError]:
    for name in ("postStart", "preStop"):
        if lifecycle and lifecycle.get(name) is not None:
            yield from _handler(lifecycle[name], path / name, grace)


def _probe(probe: Tree, path: Path, grace: int) -> Iterator[FieldError]:
    yield from _handler(probe, path, grace)
    for name in _COUNTS:
        yield from not_negative(probe, name, path)
    period = probe.get("terminationGracePeriodSeconds")
    if period is not None and period <= 0:
        yield invalid(path / "terminationGracePeriodSeconds", period, "must be greater than 0")


def _handler(handler: Tree, path: Path, grace: int) -> Iterator[FieldError]:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    for index, name in enumerate(given):
        if index:
            yield forbidden(path / name, "may not specify more than 1 handler type")
        else:
            yield from _HANDLERS[name](handler[name], path / name, grace)
    if not given:
        yield required(path, "must specify a handler type")


def _exec(action: Tree, path: Path, _: int) -> Iterator[FieldError]:
    return needed(action, "command", path)


def _http_get(action: Tree, path: Path, _: int) -> Iterator[FieldError]:
    yield from needed(action, "path", path)
    yield from port_or_name(action.get("port"), path / "port")
    yield from chosen(action.get("scheme"), ("HTTP", "HTTPS"), path / "scheme")
    for header in action.get("httpHeaders") or ():
        for message in names.http_header_name(header.get("name") or ""):
            yield invalid(path / "httpHeaders", header.get("name") or "", message)


def _port(action: Tree, path: Path, _: int) -> Iterator[FieldError]:
    return port_or_name(action.get("port"), path / "port")


def _sleep(action: Tree, path: Path, grace: int) -> Iterator[FieldError]:
    seconds = action.get("seconds") or 0
    if seconds < 0 or seconds > grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield invalid(path, seconds, detail)


_HANDLERS: dict[str, Callable[[Tree, Path, int], Iterator[FieldError]]] = {
    "exec": _exec,
    "httpGet": _http_get,
    "tcpSocket": _port,
    "grpc": _port,
    "sleep": _sleep,
}
