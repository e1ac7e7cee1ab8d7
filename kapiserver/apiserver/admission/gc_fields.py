"""Recognizes the updates of garbage collectors, which checks of rights let pass.

Mirrors IsOnlyMutatingGCFields of pkg/registry/rbac.
"""

from __future__ import annotations

from kapiserver.api.accessors import metadata_of
from kapiserver.api.types import Tree

_FIELDS = ("ownerReferences", "finalizers", "managedFields")


def changes_only_gc_fields(new: Tree, old: Tree | None) -> bool:
    """Return whether an update changes only owners, finalizers and managedFields, or nothing."""
    return old is not None and _without_fields(new) == _without_fields(old)


def _without_fields(tree: Tree) -> Tree:
    metadata = {name: value for name, value in metadata_of(tree).items() if name not in _FIELDS}
    return {**tree, "metadata": metadata}
