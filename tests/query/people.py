"""The declared domain that the tests of this folder ask about."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from defray.core.column import Column
from defray.core.dates import EPOCH_DAY, MICROSECOND
from defray.core.domain import Domain
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.query.descriptor import Question
from defray.query.region import Regions
from defray.query.sql import parse

TABLE = "people"


def _day(text: str) -> int:
    return (dt.date.fromisoformat(text) - EPOCH_DAY).days


HOUR = 3600 * 10**6
NEW_YEAR = (dt.datetime(2024, 1, 1) - dt.datetime(1970, 1, 1)) // MICROSECOND

COLUMNS = (
    Column(
        "age", "integer", Whole(0, 120), bounds=(Fraction(0), Fraction(120)), unit_step=Fraction(1)
    ),
    Column("city", "string", Values(("Oslo", "Rome", "Bern", "Côte d'Azur")), other="cell"),
    Column("group", "string", Values(("a", "b"))),
    Column(
        "income",
        "float",
        Grid(Fraction(0), Fraction(1000), 100),
        bounds=(Fraction(0), Fraction(100_000)),
        unit_step=Fraction(1),
    ),
    Column("joined", "date", Whole(_day("2020-01-01"), _day("2023-12-31"))),
    Column("member", "boolean", Values((False, True))),
    Column("note", "string", Anything()),
    Column("score", "decimal", Cuts(tuple(map(Fraction, ("0", "2.5", "5", "10")))), other="cell"),
    Column("seen", "timestamp", Grid(Fraction(NEW_YEAR), Fraction(HOUR), 24 * 60), null="drop"),
    Column("sex", "string", Values(("F", "M", "X"))),
    Column("Site No", "integer", Values(tuple(map(Fraction, (3, 1, 2)))), null="drop"),
    Column("visits", "integer", Whole(0, 1000), other="cell", null="drop"),
)
DOMAIN = Domain(tuple(sorted(COLUMNS, key=lambda column: column.name)))
REGIONS = Regions(DOMAIN.widths)


def ask(text: str, *, snap: bool = False) -> Question:
    """The question of a text about this domain."""
    return parse(text, DOMAIN, REGIONS, table=TABLE, snap=snap)
