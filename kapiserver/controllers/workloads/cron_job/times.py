"""The times at which a schedule starts Jobs.

Times are seconds since 1970. Changes of summer time are handled as robfig/cron handles them: a
start in the hour that does not exist is skipped, and a start in the hour that exists twice happens
twice. Mirrors spec.go of robfig/cron, version 3, and utils.go of pkg/controller/cronjob.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from kapiserver.api.batch.schedule import Schedule

MANY_MISSED = 100
"""More missed starts than these are reported."""

_DAY = timedelta(days=1)
_HOUR, _MINUTE = 3600, 60
_YEARS = 5
"""A schedule without a start in this many years has none."""


class ScheduleTimes:
    """The times of a schedule in a time zone."""

    def __init__(self, schedule: Schedule, zone: ZoneInfo) -> None:
        self._schedule = schedule
        self._zone = zone

    def next(self, after: float) -> int | None:
        """Return the first start later than a time; None if there is none."""
        if self._schedule.every:
            return math.floor(after) + self._schedule.every
        seconds = math.floor(after) // _MINUTE * _MINUTE + _MINUTE
        last_year = self._local(seconds).year + _YEARS
        while (moment := self._local(seconds)).year <= last_year:
            later = self._skip(moment, seconds)
            if later == seconds:
                return seconds
            seconds = later
        return None

    def _skip(self, moment: datetime, seconds: int) -> int:
        """Return the start of the next month, day, hour or minute if that of `moment` is not in the
        schedule, else `seconds`."""
        schedule = self._schedule
        midnight = datetime(moment.year, moment.month, moment.day)
        if moment.month not in schedule.months:
            return self._seconds((midnight.replace(day=1) + 31 * _DAY).replace(day=1))
        if not self._is_day(moment):
            return self._seconds(midnight + _DAY)
        if moment.hour not in schedule.hours:
            return seconds - moment.minute * _MINUTE + _HOUR
        return seconds if moment.minute in schedule.minutes else seconds + _MINUTE

    def _is_day(self, moment: datetime) -> bool:
        schedule = self._schedule
        is_day = moment.day in schedule.days
        is_weekday = moment.isoweekday() % 7 in schedule.weekdays
        if schedule.every_day_of_month or schedule.every_day_of_week:
            return is_day and is_weekday
        return is_day or is_weekday

    def _local(self, seconds: int) -> datetime:
        return datetime.fromtimestamp(seconds, self._zone)

    def _seconds(self, midnight: datetime) -> int:
        """Return the time of a midnight of the zone; if summer time skips it, of the first moment
        of the day."""
        return int(midnight.replace(tzinfo=self._zone).timestamp())


class Missed(Struct, frozen=True):
    """The starts since `since` that are due.

    since   the last start, or the creation of the CronJob
    latest  the most recent start that is due, or None
    count   how many starts are due, approximately
    """

    since: float
    latest: int | None = None
    count: int = 0


def missed_starts(times: ScheduleTimes, since: float, now: float) -> Missed:
    """Return the starts after `since` that are due. Raises ValueError if the schedule has none.

    As in Kubernetes, the period between the first two starts stands for all periods. If a longer
    one follows, such as a weekend, `latest` may be None although starts were missed."""
    first = times.next(since)
    second = times.next(first) if first is not None else None
    if first is None or second is None:
        raise ValueError("time difference between two schedules is less than 1 second")
    if now < first:
        return Missed(since)
    if now < second:
        return Missed(since, first, 1)
    period = second - first
    count = int(now - first) // period + 1
    # Begin one period early, because the periods of a schedule differ.
    latest, start = None, times.next(first + (count - 2) * period)
    while start is not None and start <= now:
        latest, start = start, times.next(start)
    return Missed(since, latest, count)


def next_start(times: ScheduleTimes, since: float, now: float) -> int | None:
    """Return the first start later than `now` if the starts until now are over, else the first
    later than `since`."""
    try:
        missed = missed_starts(times, since, now)
    except ValueError:
        return times.next(now)
    if missed.latest is not None:
        return times.next(missed.latest)
    return times.next(now if missed.count else since)
