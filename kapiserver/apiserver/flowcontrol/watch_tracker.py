"""Counts the open watches that a change of an object concerns.

Mirrors util/flowcontrol/watch_tracker.go of k8s.io/apiserver: a watch of pods that names one node
does not count, because a change of a pod concerns few of them.
"""

from __future__ import annotations

from typing import TypeAlias

from kapiserver.apiserver.request_info import RequestInfo

_Scope: TypeAlias = tuple[str, str, str, str]
"""Group, resource, namespace and name; the last two are "" for all."""
_INDEXED = {("", "pods"): "spec.nodeName"}


class WatchTracker:
    """The number of open watches by the objects that they watch."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[_Scope, int] = {}

    def add(self, info: RequestInfo) -> bool:
        """Count a watch that begins; return whether it counts, so that `remove` follows."""
        if _selects_by_index(info):
            return False
        scope = _scope_of(info)
        self._counts[scope] = self._counts.get(scope, 0) + 1
        return True

    def remove(self, info: RequestInfo) -> None:
        """Count a watch no longer."""
        scope = _scope_of(info)
        self._counts[scope] -= 1
        if not self._counts[scope]:
            del self._counts[scope]

    def count_watches(self, info: RequestInfo) -> int:
        """Return how many watches may get an event of the object that a request writes."""
        counts = self._counts
        if not counts:
            return 0
        group, resource = info.version.group, info.resource
        number = counts.get((group, resource, "", ""), 0)
        if info.namespace:
            number += counts.get((group, resource, info.namespace, ""), 0)
        if info.name:
            number += counts.get((group, resource, info.namespace, info.name), 0)
        return number


def _scope_of(info: RequestInfo) -> _Scope:
    return (info.version.group, info.resource, info.namespace, info.name)


def _selects_by_index(info: RequestInfo) -> bool:
    field = _INDEXED.get((info.version.group, info.resource))
    return field is not None and any(
        name.strip() == field and value.removeprefix("=")
        for name, separator, value in (
            term.partition("=") for term in info.field_selector.split(",")
        )
        if separator and not name.endswith("!")
    )
