"""The rules of a schema (`x-kubernetes-validations`)."""

from __future__ import annotations

from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.types import Tree


def check_rules(structural: Structural, path: Path) -> list[FieldError]:
    """What is wrong with the rules of a schema: they do not compile, or cost too much."""
    return []


def validate(
    obj: Tree, old: Tree | None, structural: Structural, path: Path | None = None
) -> list[FieldError]:
    """The rules that an object breaks."""
    return []
