"""Rules for controller revisions."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.validation.common import not_negative
from kapiserver.api.errors import FieldError, Path, required
from kapiserver.api.metadata import immutable
from kapiserver.api.types import Tree


def controller_revision(obj: Tree) -> Iterator[FieldError]:
    """A past state of a template."""
    yield from not_negative(obj, "revision", Path())
    data = obj.get("data")
    if data is None:
        yield required(Path("data"), "data is mandatory")
    elif not isinstance(data, dict):
        yield required(Path("data"), "data must be a valid JSON object")


def changed_controller_revision(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What is past does not change."""
    yield from not_negative(new, "revision", Path())
    yield from immutable(new.get("data"), old.get("data"), Path("data"))
