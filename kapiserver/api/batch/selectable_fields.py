"""Selectable fields of the batch group that are computed."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.selectable_fields import Source

FIELDS: dict[tuple[str, str], Source] = {
    ("jobs", "status.successful"): lambda job: str(value_at(job, "status", "succeeded") or 0),
}
