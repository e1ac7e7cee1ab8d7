"""The resources of the events group, in discovery's order. Knows no type."""

from __future__ import annotations

from kapiserver.api.group import Resource

RESOURCES = (
    Resource(
        group="events.k8s.io",
        name="events",
        kind="Event",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
        kept_in="",
        short_names=("ev",),
        selectable_fields=(
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "source",
            "type",
        ),
    ),
)
