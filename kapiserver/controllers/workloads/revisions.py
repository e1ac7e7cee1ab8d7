"""Revisions: the ControllerRevisions that keep the templates of a StatefulSet or a DaemonSet.

Each template is kept once, as a strategic merge patch that `kubectl rollout undo` applies. A return
to a former template gives its revision the next number. All functions are pure. Mirrors
pkg/controller/history.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.claims import controller_reference
from kapiserver.controllers.workloads.template_hash import same_template, template_hash

REVISION_HASH = "controller-revision-hash"
"""The label of a pod that names its revision."""
_MAX_NAME_PREFIX = 223
_PATCH_DIRECTIVE = "$patch"


def number_of(revision: Tree) -> int:
    """Return the number of a revision."""
    return revision.get("revision") or 0


def sorted_revisions(revisions: Iterable[Tree]) -> list[Tree]:
    """Return revisions in the order of their numbers."""

    def key(revision: Tree) -> tuple[int, str, str]:
        created = metadata_of(revision).get("creationTimestamp") or ""
        return number_of(revision), created, name_of(revision)

    return sorted(revisions, key=key)


def template_of(revision: Tree) -> Tree:
    """Return the pod template that a revision keeps."""
    template: Tree = value_at(revision, "data", "spec", "template") or {}
    return {name: value for name, value in template.items() if name != _PATCH_DIRECTIVE}


def newest_equal(owner: Tree, revisions: Sequence[Tree]) -> Tree | None:
    """Return the newest revision with the template of `owner`, or None."""
    template: Tree = value_at(owner, "spec", "template") or {}
    for revision in reversed(revisions):
        if same_template(template_of(revision), template):
            return revision
    return None


def next_number(revisions: Sequence[Tree]) -> int:
    """Return the number for a new revision."""
    return number_of(revisions[-1]) + 1 if revisions else 1


def new_revision(owner: Tree, hash_label: str, number: int, collision_count: int) -> Tree:
    """Return a revision with the template of `owner`, whose hash becomes a label and part of the
    name."""
    template: Tree = value_at(owner, "spec", "template") or {}
    text = template_hash(template, collision_count)
    reference = controller_reference(owner, owner["apiVersion"], owner["kind"])
    metadata: Tree = {
        "name": f"{name_of(owner)[:_MAX_NAME_PREFIX]}-{text}",
        "namespace": namespace_of(owner),
        "labels": {**labels_of(template), hash_label: text},
        "ownerReferences": [reference],
    }
    if annotations_of(owner):
        metadata["annotations"] = dict(annotations_of(owner))
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": {"spec": {"template": template | {_PATCH_DIRECTIVE: "replace"}}},
        "revision": number,
    }


def surplus_revisions(owner: Tree, revisions: Sequence[Tree], live: Container[str]) -> list[Tree]:
    """Return the oldest revisions beyond `spec.revisionHistoryLimit`; those whose names are in
    `live` are kept and do not count."""
    limit = value_at(owner, "spec", "revisionHistoryLimit")
    old = [revision for revision in revisions if name_of(revision) not in live]
    if limit is None or limit < 0 or len(old) <= limit:
        return []
    return old[: len(old) - limit]
