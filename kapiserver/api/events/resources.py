"""The resources of the events group, in the order of discovery. Imports no types."""

from __future__ import annotations

from kapiserver.api.group import Resource

_REFERENCE_FIELDS = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)

RESOURCES = (
    Resource(
        group="events.k8s.io",
        name="events",
        kind="Event",
        namespaced=True,
        versions=("v1",),
        storage_version="v1",
        stored_in_group="",
        short_names=("ev",),
        selectable_fields=("reason", "source", "type"),
        field_aliases=(
            *((f"regarding.{name}", f"involvedObject.{name}") for name in _REFERENCE_FIELDS),
            ("reportingController", "reportingComponent"),
        ),
    ),
)
