"""Validation of controller revisions."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.errors import FieldError, Path, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree


def validate_controller_revision(obj: Tree) -> Iterator[FieldError]:
    """Validate a new controller revision."""
    yield from validate_nonnegative_field(obj, "revision", Path())
    data = obj.get("data")
    if data is None:
        yield required(Path("data"), "data is mandatory")
    elif not isinstance(data, dict):
        yield required(Path("data"), "data must be a valid JSON object")


def validate_controller_revision_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated controller revision. Its data is immutable."""
    yield from validate_nonnegative_field(new, "revision", Path())
    yield from immutable(new.get("data"), old.get("data"), Path("data"))
