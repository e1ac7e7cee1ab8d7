"""Removes the bodies of events that are too large, and refuses events that still are.

Mirrors plugin/pkg/audit/truncate of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.audit.backend import Encoder
from kapiserver.apiserver.audit.event import AuditEvent

PLUGIN = "truncate"
"""The name under which refused events are counted."""
_ANNOTATION, _VALUE = "audit.k8s.io/truncated", "true"


class EventTooLarge(ValueError):
    """An event is larger than the limit even without its bodies."""


def truncating(encode: Encoder, max_bytes: int) -> Encoder:
    """Return an encoder of events of at most `max_bytes`; it raises EventTooLarge."""

    def encode_truncated(event: AuditEvent) -> bytes:
        line = encode(event)
        if len(line) > max_bytes and event.has_bodies:
            line = encode(_without_bodies(event))
        if len(line) > max_bytes:
            raise EventTooLarge("event is too large even after truncating")
        return line

    return encode_truncated


def _without_bodies(event: AuditEvent) -> AuditEvent:
    annotations = {**(event.fields.get("annotations") or {}), _ANNOTATION: _VALUE}
    return AuditEvent({**event.fields, "annotations": annotations})
