"""Validation of namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.metadata_validation import standard_finalizer
from kapiserver.api.types import Tree

_FINALIZERS = Path("spec") / "finalizers"


def validate_namespace(obj: Tree) -> Iterator[FieldError]:
    """Validate the finalizers of a new namespace."""
    for finalizer in value_at(obj, "spec", "finalizers") or ():
        yield from _validate_finalizer(finalizer, _FINALIZERS)


def validate_namespace_finalize_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the remaining finalizers of a namespace."""
    for index, finalizer in enumerate(value_at(new, "spec", "finalizers") or ()):
        yield from _validate_finalizer(finalizer, _FINALIZERS[index])


def _validate_finalizer(finalizer: str, path: Path) -> Iterator[FieldError]:
    yield from validate_format(names.qualified_name, finalizer, path)
    yield from standard_finalizer(finalizer, path)


def validate_namespace_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate that a namespace is Terminating if and only if it is being deleted."""
    phase = value_at(new, "status", "phase") or ""
    phase_path = Path("status") / "Phase"
    if is_terminating(new):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield invalid(phase_path, phase, detail)
    elif phase != "Active":
        yield invalid(phase_path, phase, "may only be 'Active' if `deletionTimestamp` is empty")
