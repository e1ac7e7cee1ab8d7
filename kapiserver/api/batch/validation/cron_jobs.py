"""Validation of cron jobs."""

from __future__ import annotations

import string
from collections.abc import Iterator

from kapiserver.api.accessors import name_of
from kapiserver.api.batch.schedule import schedule_problems
from kapiserver.api.batch.time_zones import time_zones
from kapiserver.api.batch.validation.jobs import validate_job_template
from kapiserver.api.core.validation.common import (
    validate_enum,
    validate_format,
    validate_nonnegative_field,
)
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_NAME_MAX = 52
"""Names of jobs are 11 bytes longer, and host names of pods have at most 63."""
_ZONE_PART_MAX = 14
_ZONE = frozenset(string.ascii_letters + string.digits + "._-+")


def validate_cron_job(obj: Tree) -> Iterator[FieldError]:
    """Validate a new cron job."""
    spec = obj.get("spec") or {}
    yield from _validate_cron_job_spec(spec, {})
    if len(name_of(obj)) > _NAME_MAX:
        detail = f"must be no more than {_NAME_MAX} characters"
        yield invalid(Path("metadata") / "name", name_of(obj), detail)


def validate_cron_job_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated cron job. A time zone in its schedule may stay."""
    return _validate_cron_job_spec(new.get("spec") or {}, old.get("spec") or {})


def _validate_cron_job_spec(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    yield from _validate_schedule(spec, old_spec, _SPEC / "schedule")
    yield from validate_nonnegative_field(spec, "startingDeadlineSeconds", _SPEC)
    zone = spec.get("timeZone")
    if zone is not None and zone != old_spec.get("timeZone"):
        yield from _validate_time_zone(zone, _SPEC / "timeZone")
    policies = ("Allow", "Forbid", "Replace")
    yield from validate_enum(spec.get("concurrencyPolicy"), policies, _SPEC / "concurrencyPolicy")
    yield from validate_job_template(spec.get("jobTemplate") or {}, _SPEC / "jobTemplate")
    yield from validate_nonnegative_field(spec, "successfulJobsHistoryLimit", _SPEC)
    yield from validate_nonnegative_field(spec, "failedJobsHistoryLimit", _SPEC)


def _validate_schedule(spec: Tree, old_spec: Tree, path: Path) -> Iterator[FieldError]:
    text = spec.get("schedule") or ""
    if not text:
        yield required(path)
        return
    yield from validate_format(schedule_problems, text, path)
    if "TZ" not in text:
        return
    if "TZ" not in (old_spec.get("schedule") or ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(path, text, detail)
    elif spec.get("timeZone") is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(path, text, detail)


def _validate_time_zone(zone: str, path: Path) -> Iterator[FieldError]:
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
    elif not all(map(_is_zone_part, zone.split("/"))):
        yield invalid(path, zone, f"unknown time zone {zone}")
    else:
        if zone.lower() == "local":
            detail = (
                "timeZone must be an explicit time zone as defined in "
                "https://www.iana.org/time-zones"
            )
            yield invalid(path, zone, detail)
        if zone != "Local" and zone not in time_zones():
            yield invalid(path, zone, f"unknown time zone {zone}")


def _is_zone_part(part: str) -> bool:
    return (
        0 < len(part) <= _ZONE_PART_MAX
        and part not in (".", "..")
        and not part.startswith("-")
        and _ZONE.issuperset(part)
    )
