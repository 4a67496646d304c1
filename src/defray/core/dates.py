"""Days and microseconds since 1970-01-01, and the buckets of ``date_trunc``."""

from __future__ import annotations

import datetime as dt

EPOCH_DAY = dt.date(1970, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)

DATE_LEVELS = ("day", "week", "month", "quarter", "year")
LEVEL_MICROSECONDS = {
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86400 * 10**6,
}
"""The levels whose buckets are all of one length, finest first."""


def truncate(moment: dt.datetime, level: str) -> dt.datetime:
    """``date_trunc`` of the usual SQL dialects (weeks start on Monday)."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match level:
        case "second":
            return moment.replace(microsecond=0)
        case "minute":
            return moment.replace(second=0, microsecond=0)
        case "hour":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "day":
            return day
        case "week":
            return day - dt.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)
    raise ValueError(f"unknown level {level}")


def bucket(moment: dt.datetime, level: str) -> int:
    """Which ``date_trunc`` bucket a moment lies in, counted so that neighbours differ by one."""
    match level:
        case "week":
            return (moment.toordinal() - 1) // 7  # 0001-01-01 was a Monday
        case "month":
            return moment.year * 12 + moment.month - 1
        case "quarter":
            return moment.year * 4 + (moment.month - 1) // 3
        case "year":
            return moment.year
    return (moment - EPOCH) // MICROSECOND // LEVEL_MICROSECONDS[level]
