"""Conversion of events.k8s.io/v1 to core/v1, in which events are stored. Only field names differ.

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
"""Fields of events.k8s.io and their names in the core group."""


def _to_core(source: Tree, target: Tree) -> None:
    target.update((core_name, source[name]) for name, core_name in NAMES.items() if name in source)


def _from_core(source: Tree, target: Tree) -> None:
    target.update(
        (name, source[core_name]) for name, core_name in NAMES.items() if core_name in source
    )


CONVERSIONS: Functions = {
    (v1.Event, core.Event): _to_core,
    (core.Event, v1.Event): _from_core,
}
