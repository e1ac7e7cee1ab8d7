"""The times of schedules: the next start, and the starts that were missed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.batch.schedule import parse_schedule
from kapiserver.controllers.workloads.cron_job.times import (
    ScheduleTimes,
    missed_starts,
    next_start,
)


def times(text, zone="UTC"):
    return ScheduleTimes(parse_schedule(text), ZoneInfo(zone))


def seconds(text, zone="UTC", fold=0):
    """The seconds of a time like `2026-03-01 02:00`."""
    moment = datetime.strptime(
        text, "%Y-%m-%d %H:%M:%S" if text.count(":") > 1 else "%Y-%m-%d %H:%M"
    )
    return int(moment.replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


@pytest.mark.parametrize(
    ("text", "after", "start"),
    [
        ("* * * * *", "2026-01-01 00:00", "2026-01-01 00:01"),
        ("* * * * *", "2026-01-01 00:00:59", "2026-01-01 00:01"),
        ("*/15 * * * *", "2026-01-01 00:44", "2026-01-01 00:45"),
        ("*/15 * * * *", "2026-01-01 00:45", "2026-01-01 01:00"),
        ("5/20 * * * *", "2026-01-01 00:45", "2026-01-01 01:05"),
        ("0 2 * * *", "2026-01-01 02:00", "2026-01-02 02:00"),
        ("0 2 * * *", "2026-12-31 02:00", "2027-01-01 02:00"),
        ("30 6-16/4 * * 1-5", "2026-11-20 14:30", "2026-11-23 06:30"),
        ("0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"),
        ("0 0 31 * *", "2026-03-31 00:00", "2026-05-31 00:00"),
        ("0 0 1 jan,JUL *", "2026-01-01 00:00", "2026-07-01 00:00"),
        # If both days are restricted, one of them is enough.
        ("0 0 13 * fri", "2026-11-13 00:00", "2026-11-20 00:00"),
        ("0 0 13 * *", "2026-11-13 00:00", "2026-12-13 00:00"),
        ("0 0 ? * sun", "2026-11-24 00:00", "2026-11-29 00:00"),
        # `*/2` restricts the days, `*/1` does not.
        ("0 0 */2 * sun", "2026-11-24 00:00", "2026-11-25 00:00"),
        ("0 0 */1 * sun", "2026-11-24 00:00", "2026-11-29 00:00"),
        ("@hourly", "2026-01-01 00:00", "2026-01-01 01:00"),
        ("@daily", "2026-01-01 00:00", "2026-01-02 00:00"),
        ("@midnight", "2026-01-01 00:00", "2026-01-02 00:00"),
        ("@weekly", "2026-11-24 00:00", "2026-11-29 00:00"),
        ("@monthly", "2026-11-24 00:00", "2026-12-01 00:00"),
        ("@yearly", "2026-11-24 00:00", "2027-01-01 00:00"),
        ("@annually", "2026-11-24 00:00", "2027-01-01 00:00"),
        ("@every 1h30m", "2026-01-01 00:00:07", "2026-01-01 01:30:07"),
        ("@every 1.9s", "2026-01-01 00:00", "2026-01-01 00:00:01"),
        ("@every 10ms", "2026-01-01 00:00", "2026-01-01 00:00:01"),
        ("@every -1h", "2026-01-01 00:00", "2026-01-01 00:00:01"),
    ],
)
def test_next(text, after, start):
    assert times(text).next(seconds(after)) == seconds(start)


@pytest.mark.parametrize(
    ("text", "zone", "after", "start"),
    [
        ("0 2 * * *", "Europe/Rome", "2026-01-01 00:00", "2026-01-01 02:00"),
        ("0 2 * * *", "America/New_York", "2026-07-01 02:00", "2026-07-02 02:00"),
        # 02:30 does not exist on the day on which summer time begins.
        ("30 2 * * *", "Europe/Rome", "2026-03-28 02:30", "2026-03-30 02:30"),
        ("30 3 * * *", "Europe/Rome", "2026-03-28 03:30", "2026-03-29 03:30"),
        # Midnight does not exist on the day on which summer time begins here.
        ("0 1 * * *", "America/Havana", "2026-03-07 01:00", "2026-03-08 01:00"),
        ("0 0 * * *", "Asia/Kathmandu", "2026-01-01 00:00", "2026-01-02 00:00"),
    ],
)
def test_next_in_a_zone(text, zone, after, start):
    assert times(text, zone).next(seconds(after, zone)) == seconds(start, zone)


def test_an_hour_that_exists_twice():
    rome, first = times("30 2 * * *", "Europe/Rome"), seconds("2026-10-25 02:30", "Europe/Rome")
    assert rome.next(seconds("2026-10-24 03:00", "Europe/Rome")) == first
    assert rome.next(first) == seconds("2026-10-25 02:30", "Europe/Rome", fold=1)


def test_a_schedule_without_a_start():
    assert times("59 23 31 2 *").next(seconds("2026-01-01 00:00")) is None
    with pytest.raises(ValueError, match="time difference between two schedules is less than 1"):
        missed_starts(times("59 23 31 2 *"), 0, seconds("2026-01-01 00:00"))


@pytest.mark.parametrize(
    ("text", "since", "now", "latest", "count", "start"),
    [
        ("0 * * * *", "2026-01-01 00:30", "2026-01-01 00:59", None, 0, "2026-01-01 01:00"),
        (
            *("0 * * * *", "2026-01-01 00:30", "2026-01-01 01:00"),
            *("2026-01-01 01:00", 1, "2026-01-01 02:00"),
        ),
        (
            *("0 * * * *", "2026-01-01 00:30", "2026-01-01 05:10"),
            *("2026-01-01 05:00", 5, "2026-01-01 06:00"),
        ),
        (
            *("* * * * *", "2026-01-01 00:00", "2026-01-01 01:41"),
            *("2026-01-01 01:41", 101, "2026-01-01 01:42"),
        ),
        (
            *("@every 1h", "2026-01-01 00:07", "2026-01-01 03:30"),
            *("2026-01-01 03:07", 3, "2026-01-01 04:07"),
        ),
        (
            *("30 6-16/4 * * 1-5", "2026-11-20 14:30", "2026-11-23 15:00"),
            *("2026-11-23 14:30", 3, "2026-11-24 06:30"),
        ),
        # As in Kubernetes, a long pause hides the starts before it.
        (
            *("30 6-16/4 * * 1-5", "2026-11-20 14:30", "2026-11-24 00:00"),
            *(None, 5, "2026-11-24 06:30"),
        ),
    ],
)
def test_missed(text, since, now, latest, count, start):
    schedule = times(text)
    missed = missed_starts(schedule, seconds(since), seconds(now))
    assert missed.latest == (latest and seconds(latest))
    assert missed.count == count
    assert next_start(schedule, seconds(since), seconds(now)) == seconds(start)


MINUTES = st.sampled_from(["*", "0", "*/7", "59", "10-20"])
HOURS = st.sampled_from(["*", "0", "2", "3", "*/5", "22-23"])
DAYS = st.sampled_from(["*", "1", "31", "*/2", "10,20"])
ZONES = st.sampled_from(["UTC", "Europe/Rome", "America/Havana", "Australia/Lord_Howe"])
TIMES = st.integers(seconds("2025-01-01 00:00"), seconds("2027-01-01 00:00"))


@given(MINUTES, HOURS, DAYS, ZONES, TIMES)
def test_starts_match_their_schedule(minutes, hours, days, zone, after):
    """A start is a later full minute whose local time the schedule names, and the start that is due
    then."""
    schedule = parse_schedule(f"{minutes} {hours} {days} * *")
    both = ScheduleTimes(schedule, ZoneInfo(zone))
    start = both.next(after)
    assert start > after
    moment = datetime.fromtimestamp(start, ZoneInfo(zone))
    assert moment.second == 0
    assert moment.minute in schedule.minutes
    assert moment.hour in schedule.hours
    assert moment.day in schedule.days
    assert missed_starts(both, after, start).latest == start
