"""The rules for a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.errors import FieldError
from kapiserver.api.types import Tree


def definition(obj: Tree) -> Iterator[FieldError]:
    return iter(())


def changed_definition(new: Tree, old: Tree) -> Iterator[FieldError]:
    return iter(())


def changed_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    return iter(())
