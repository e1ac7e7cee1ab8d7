"""Whether a custom object is what its schema says. See `validate`."""

from __future__ import annotations

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.types import Tree


def validate(
    obj: Tree, structural: Structural, old: Tree | None = None, path: Path | None = None
) -> list[FieldError]:
    """What the schema says against an object.

    old  the object before the write: what is unchanged is not reported (ratcheting)
    """
    return []
