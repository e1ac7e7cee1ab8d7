"""Rules for cron jobs."""

from __future__ import annotations

import string
from collections.abc import Iterator

from kapiserver.api.batch.schedule import schedule
from kapiserver.api.batch.time_zones import time_zones
from kapiserver.api.batch.validation.jobs import job_template
from kapiserver.api.core.validation.common import checked, chosen, not_negative
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.objects import name_of
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_NAME_MAX = 52
"""Its jobs' names are 11 bytes longer, and their pods' host names end at 63."""
_ZONE_PART_MAX = 14
_ZONE = frozenset(string.ascii_letters + string.digits + "._-+")


def cron_job(obj: Tree) -> Iterator[FieldError]:
    """A new cron job."""
    spec = obj.get("spec") or {}
    yield from _cron_job_spec(spec, {})
    if len(name_of(obj)) > _NAME_MAX:
        detail = f"must be no more than {_NAME_MAX} characters"
        yield invalid(Path("metadata") / "name", name_of(obj), detail)


def changed_cron_job(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed cron job: what was once allowed in its schedule may stay."""
    return _cron_job_spec(new.get("spec") or {}, old.get("spec") or {})


def _cron_job_spec(spec: Tree, before: Tree) -> Iterator[FieldError]:
    yield from _schedule(spec, before, _SPEC / "schedule")
    yield from not_negative(spec, "startingDeadlineSeconds", _SPEC)
    zone = spec.get("timeZone")
    if zone is not None and zone != before.get("timeZone"):
        yield from _time_zone(zone, _SPEC / "timeZone")
    policies = ("Allow", "Forbid", "Replace")
    yield from chosen(spec.get("concurrencyPolicy"), policies, _SPEC / "concurrencyPolicy")
    yield from job_template(spec.get("jobTemplate") or {}, _SPEC / "jobTemplate")
    yield from not_negative(spec, "successfulJobsHistoryLimit", _SPEC)
    yield from not_negative(spec, "failedJobsHistoryLimit", _SPEC)


def _schedule(spec: Tree, before: Tree, path: Path) -> Iterator[FieldError]:
    text = spec.get("schedule") or ""
    if not text:
        yield required(path)
        return
    yield from checked(schedule, text, path)
    if "TZ" not in text:
        return
    if "TZ" not in (before.get("schedule") or ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(path, text, detail)
    elif spec.get("timeZone") is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(path, text, detail)


def _time_zone(zone: str, path: Path) -> Iterator[FieldError]:
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
