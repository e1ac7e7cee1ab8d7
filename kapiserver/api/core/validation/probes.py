"""Validation of probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api import names
from kapiserver.api.core.v1 import Lifecycle
from kapiserver.api.core.validation.common import (
    validate_nonnegative_field,
    validate_port_number_or_name,
    validate_required,
)
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.types import Tree

_COUNTS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
    "failureThreshold",
)  # fmt: skip


def validate_probes(container: Tree, path: Path, spec: Tree) -> Iterator[FieldError]:
    """Validate the lifecycle hooks and the probes of a container of the pod."""
    grace_period = spec.get("terminationGracePeriodSeconds")
    yield from _validate_lifecycle(container.get("lifecycle"), path / "lifecycle", spec)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        field_path = path / name
        yield from _validate_probe(probe, field_path, grace_period)
        if name == "readinessProbe":
            period = probe.get("terminationGracePeriodSeconds")
            if period is not None:
                detail = "must not be set for readinessProbes"
                yield invalid(field_path / "terminationGracePeriodSeconds", period, detail)
        elif probe.get("successThreshold") != 1:
            yield invalid(
                field_path / "successThreshold", probe.get("successThreshold") or 0, "must be 1"
            )


def _validate_lifecycle(lifecycle: Tree | None, path: Path, spec: Tree) -> Iterator[FieldError]:
    if not lifecycle:
        return
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            grace_period = spec.get("terminationGracePeriodSeconds")
            yield from _validate_handler(lifecycle[name], path / name, grace_period)
    signal = lifecycle.get("stopSignal")
    if signal is not None:
        yield from _validate_stop_signal(
            signal, (spec.get("os") or {}).get("name"), path / "stopSignal"
        )


def _validate_stop_signal(signal: str, os_name: str | None, path: Path) -> Iterator[FieldError]:
    if not os_name:
        yield forbidden(path, "may not be set for containers with empty `spec.os.name`")
        return
    allowed = ("SIGKILL", "SIGTERM") if os_name == "windows" else _stop_signals()
    if signal not in allowed:
        yield not_supported(path, signal, allowed)


def _stop_signals() -> tuple[str, ...]:
    flat = next(
        flat_field
        for flat_field in Lifecycle.flat_fields()
        if flat_field.field.name == "stopSignal"
    )
    return flat.field.options.enum


def _validate_probe(probe: Tree, path: Path, grace_period: int | None) -> Iterator[FieldError]:
    yield from _validate_handler(probe, path, grace_period)
    for name in _COUNTS:
        yield from validate_nonnegative_field(probe, name, path)
    period = probe.get("terminationGracePeriodSeconds")
    if period is not None and period <= 0:
        yield invalid(path / "terminationGracePeriodSeconds", period, "must be greater than 0")


def _validate_handler(handler: Tree, path: Path, grace_period: int | None) -> Iterator[FieldError]:
    handlers = [name for name in _HANDLERS if handler.get(name) is not None]
    for index, name in enumerate(handlers):
        if index:
            yield forbidden(path / name, "may not specify more than 1 handler type")
        else:
            yield from _HANDLERS[name](handler[name], path / name, grace_period)
    if not handlers:
        yield required(path, "must specify a handler type")


def _validate_exec_action(action: Tree, path: Path, _: int | None) -> Iterator[FieldError]:
    return validate_required(action, "command", path)


def _validate_http_get_action(action: Tree, path: Path, _: int | None) -> Iterator[FieldError]:
    yield from validate_required(action, "path", path)
    yield from validate_port_number_or_name(action.get("port"), path / "port")
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        yield not_supported(path / "scheme", scheme, ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        for message in names.http_header_name(header.get("name") or ""):
            yield invalid(path / "httpHeaders", header.get("name") or "", message)


def _validate_port_action(action: Tree, path: Path, _: int | None) -> Iterator[FieldError]:
    return validate_port_number_or_name(action.get("port"), path / "port")


def _validate_sleep_action(
    action: Tree, path: Path, grace_period: int | None
) -> Iterator[FieldError]:
    seconds = action.get("seconds") or 0
    if grace_period is not None and not 0 <= seconds <= grace_period:
        detail = (
            f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
        )
        yield invalid(path, seconds, detail)


_HANDLERS: dict[str, Callable[[Tree, Path, int | None], Iterator[FieldError]]] = {
    "exec": _validate_exec_action,
    "httpGet": _validate_http_get_action,
    "tcpSocket": _validate_port_action,
    "grpc": _validate_port_action,
    "sleep": _validate_sleep_action,
}
