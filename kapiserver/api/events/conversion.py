"""Events of events.k8s.io/v1 are kept as those of the core group: other names, the same facts.

Mirrors pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from kapiserver.api.conversion import Functions
from kapiserver.api.core import v1 as core
from kapiserver.api.events import v1
from kapiserver.api.types import Tree

NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io by what the core group calls them."""


def _to_core(source: Tree, target: Tree) -> None:
    target.update((theirs, source[ours]) for ours, theirs in NAMES.items() if ours in source)


def _from_core(source: Tree, target: Tree) -> None:
    target.update((ours, source[theirs]) for ours, theirs in NAMES.items() if theirs in source)


CONVERSIONS: Functions = {
    (v1.Event, core.Event): _to_core,
    (core.Event, v1.Event): _from_core,
}
