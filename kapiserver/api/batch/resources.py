"""The resources of the batch group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource, Subresource

_batch = partial(Resource, group="batch", versions=("v1",), storage_version="v1")
_STATUS = Subresource(name="status")

RESOURCES = (
    _batch(
        name="cronjobs",
        kind="CronJob",
        namespaced=True,
        short_names=("cj",),
        categories=("all",),
        subresources=(_STATUS,),
    ),
    _batch(
        name="jobs",
        kind="Job",
        namespaced=True,
        categories=("all",),
        subresources=(_STATUS,),
        selectable_fields=("status.successful",),
        unsupported_field_message='field label "{}" not supported for Job',
    ),
)
