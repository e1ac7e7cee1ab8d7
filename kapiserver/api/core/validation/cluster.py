"""Rules for namespaces and events."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import is_terminating, namespace_of, value_at
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import standard_finalizer
from kapiserver.api.types import Tree

_FINALIZERS = Path("spec") / "finalizers"
_SHORT = 128
_LONG = 1024


def validate_namespace(obj: Tree) -> Iterator[FieldError]:
    """A new namespace's finalizers."""
    for finalizer in value_at(obj, "spec", "finalizers") or ():
        yield from _validate_finalizer(finalizer, _FINALIZERS)


def validate_namespace_finalize_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What still holds a namespace."""
    for index, finalizer in enumerate(value_at(new, "spec", "finalizers") or ()):
        yield from _validate_finalizer(finalizer, _FINALIZERS[index])


def _validate_finalizer(finalizer: str, path: Path) -> Iterator[FieldError]:
    yield from validate_format(names.qualified_name, finalizer, path)
    yield from standard_finalizer(finalizer, path)


def validate_namespace_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """A namespace is Terminating exactly when its deletion was asked for."""
    phase = value_at(new, "status", "phase") or ""
    phase_path = Path("status") / "Phase"
    if is_terminating(new):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield invalid(phase_path, phase, detail)
    elif phase != "Active":
        yield invalid(phase_path, phase, "may only be 'Active' if `deletionTimestamp` is empty")


def validate_event(obj: Tree, reporter: str = "reportingComponent") -> Iterator[FieldError]:
    """An event lies in the namespace of what it is about; one with an `eventTime` may lie in any,
    and is told where that is when it is about something that lies in none. `reporter` is what the
    version of the request calls the one that reports it."""
    own, about = namespace_of(obj), value_at(obj, "involvedObject", "namespace") or ""
    is_new = bool(obj.get("eventTime"))
    homes = ("default", "kube-system") if is_new else ("", "default")
    if own not in homes if not about else own != about and not is_new:
        detail = "does not match event.namespace"
        yield invalid(Path("involvedObject") / "namespace", about, detail)
    if is_new:
        yield from _validate_new_style(obj, Path(reporter))
    yield from validate_format(names.dns1123_subdomain, own, Path("namespace"))


def _validate_new_style(obj: Tree, path: Path) -> Iterator[FieldError]:
    controller = obj.get("reportingComponent") or ""
    if not controller:
        yield required(path)
    yield from validate_format(names.qualified_name, controller, path)
    for name in ("reportingInstance", "action", "reason"):
        value = obj.get(name) or ""
        if not value:
            yield required(Path(name))
        if names.byte_length(value) > _SHORT:
            yield invalid(Path(name), "", f"can have at most {_SHORT} characters")
    if names.byte_length(obj.get("message") or "") > _LONG:
        yield invalid(Path("message"), "", f"can have at most {_LONG} characters")
