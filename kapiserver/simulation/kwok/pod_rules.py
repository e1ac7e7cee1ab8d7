"""Decides which object of kwok's kinds about pods applies to a container.

A kind has two forms: an object of the namespaced one is for the pod of its name, one of the cluster
for the pods that it selects. Each has a list of entries for containers. Mirrors pkg/kwok/server of
kwok.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import name_of, namespace_of, value_at
from kapiserver.api.types import Tree


def find_entry(
    of_pod: Tree | None,
    of_cluster: Iterable[Tree],
    field: str,
    pod: Tree,
    name: str | int,
    *,
    names: str = "containers",
) -> Tree | None:
    """Return the entry for a container in the list `field` of a spec: that of `of_pod`, the object
    with the pod's name, or, if there is none, that of the first object of the cluster which has
    one. None if no object has any.

    names   the field of an entry that says what it is for, if that is not containers
    """
    if of_pod is not None:
        return _entry_of(of_pod, field, name, names)
    for rule in of_cluster:
        if _selects(value_at(rule, "spec", "selector") or {}, pod):
            entry = _entry_of(rule, field, name, names)
            if entry is not None:
                return entry
    return None


def _selects(selector: Tree, pod: Tree) -> bool:
    selected, namespaces = selector.get("matchNames"), selector.get("matchNamespaces")
    return (not selected or name_of(pod) in selected) and (
        not namespaces or namespace_of(pod) in namespaces
    )


def _entry_of(obj: Tree, field: str, name: str | int, names: str) -> Tree | None:
    """Return the entry that names a container, or else the first one without names."""
    entries: Sequence[Tree] = value_at(obj, "spec", field) or ()
    for entry in entries:
        if name in (entry.get(names) or ()):
            return entry
    return next((entry for entry in entries if not entry.get(names)), None)
