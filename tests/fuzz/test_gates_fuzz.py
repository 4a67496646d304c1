"""Random contracts and asks on the real engine: quotes, charges and answers must agree under every gate."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from defray import books
from defray.controller.goals import Wish
from defray.core.answer import Answer, Quote
from defray.core.contract import Contract, SourceSpec, Unit
from defray.engine import Engine
from defray.errors import Refused, TooFewRows
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.policy.choices import GATES, NEED_HORIZON
from defray.simulate.tables import synthetic
from defray.transcript import terms_of
from tests.controller.bench_table import DOMAIN

REGIONS = (
    "age < 40",
    "age BETWEEN 20 AND 60",
    "sex = 'F'",
    "income > 50000",
    "age = 7",
    "TRUE",
    "age < 40 AND sex = 'M'",
    "sex IS NULL",
)
COUNTS: tuple[dict[str, Any], ...] = (
    *({"within": u} for u in (3, 8, 15, 40, 100)),
    {"within": "5%"},
    {"rho": "0.001"},
    {"rho": "0.01"},
    *({"within": 20, "validity": v} for v in ("anytime", "confirm", "looks=3")),
)


def contract(chance: random.Random) -> Contract:
    gate = chance.choice(list(GATES))
    return Contract(
        table="people",
        rho=Fraction(chance.choice(["1/100", "1/10", "1"])),
        unit=chance.choice([Unit(), Unit("id", 3)]),
        source=SourceSpec("csv", "people.csv"),
        domain=DOMAIN,
        directory=Path(),
        xi=Fraction(chance.choice(["0", "1/20", "1/2"])),
        horizon=chance.choice([1, 3, 12, 1000] if gate in NEED_HORIZON else [None, 5]),
        gate=gate,
        support=chance.choice(["exact", "linear"]),
        m_floor=Fraction(20),
        n_max=chance.choice([None, 10_000]),
    )


def question(chance: random.Random) -> tuple[str, Wish]:
    what = chance.choice(["COUNT(*)"] * 3 + ["SUM(income)", "AVG(income)", "COUNT(*), SUM(income)"])
    region, grouped = chance.choice(REGIONS), chance.random() < 1 / 3
    wish: dict[str, Any]
    if what == "COUNT(*)":
        wish = chance.choice(COUNTS)
    elif what == "SUM(income)":
        wish = {"within": chance.choice([1e5, 1e6, 5e6, "10%"])}
    elif what == "AVG(income)":
        wish = {"within": chance.choice([2000, 10_000, "20%"])}
    else:
        errors = {"count": chance.choice([10, 40]), "sum_income": chance.choice([1e6, 1e5])}
        wish = {"within": errors}
    sql = f"SELECT {'sex, ' if grouped else ''}{what} FROM people WHERE {region}"
    sql += " GROUP BY sex" if grouped else ""
    return sql, Wish.of(wish.get("within"), None, wish.get("rho"), None, None, wish.get("validity"))


def spent(ledger: MemoryLedger) -> tuple[int, int]:
    with ledger.view() as view:
        return view.spent("answer"), view.spent("diagnostic")


def faults(
    quote: Quote | Refused, found: Answer | Refused, charged: float, *, by_cell: bool
) -> Iterator[str]:
    """What is wrong with an ask, after its quote; ``charged`` is by how much the ledger's total rose: where
    cells are charged, it is that of the dearest, who need not pay."""
    if isinstance(found, Refused):
        if charged and not isinstance(found, TooFewRows):
            yield "refused, but charged"
        if isinstance(quote, Quote) and quote.exact and quote.high_rho:
            yield "a quote that was exact was refused"
        return
    if isinstance(quote, Refused):
        yield "answered, but not quoted"
        return
    most, least = found.charged_rho, 0.0 if by_cell else found.charged_rho
    if not least - 1e-12 * max(charged, 1e-9) <= charged <= most + 1e-12 * max(charged, 1e-9):
        yield f"charged {charged}, not {found.charged_rho}"
    if quote.exact and found.charged_rho != quote.charged_rho:
        yield "charged otherwise than quoted"
    if not quote.low_rho * (1 - 1e-12) <= found.charged_rho <= quote.high_rho * (1 + 1e-12):
        yield "charged outside of the quoted range"
    if found.met and found.shortfall_rho:
        yield "met, and yet a shortfall"
    noted = any(row.note for row in found)
    if not found.met and not found.shortfall_rho and not noted:
        yield "not met, and no word of it"
    if quote.exact and quote.achieves and len(found) == 1 and not found.met:
        foreseen = quote.achieves[found.only.aggregate]
        if foreseen != pytest.approx(found.half_width, rel=1e-9):
            yield "another accuracy than foreseen"


def play(seed: int, contracts: int, asks: int = 25) -> int:
    """So many contracts with so many asks each; returns the number of quotes that were exact."""
    chance, exact = random.Random(seed), 0
    for _ in range(contracts):
        terms = contract(chance)
        table = synthetic(DOMAIN, chance.choice([0, 50, 3000]), chance.randrange(10**6))
        ledger = MemoryLedger(terms_of(terms))
        engine = Engine(terms, ledger, table, OpenDPSampler())
        for _ in range(asks):
            sql, wish = question(chance)
            quote: Quote | Refused
            found: Answer | Refused
            try:
                quote = engine.quote(sql, wish)
            except Refused as refused:
                quote = refused
            before = spent(ledger)
            try:
                found = engine.ask(sql, wish)
            except Refused as refused:
                found = refused
            after = spent(ledger)
            caps = ledger.terms.caps
            assert after[0] <= caps["answer"] and after[1] <= caps["diagnostic"]
            quanta = sum(after) - sum(before)
            charged = float(Fraction(quanta) * terms.rho / 2**50)
            wrong = list(faults(quote, found, charged, by_cell=terms.support == "linear"))
            assert not wrong, (
                wrong,
                terms.support,
                terms.gate,
                terms.xi,
                terms.horizon,
                sql,
                wish,
                quote,
                found,
            )
            exact += isinstance(quote, Quote) and quote.exact
            if isinstance(found, Answer) and found.met:
                assert engine.ask(sql, wish).charged_rho == 0
        assert books.run_audit(ledger).ok
    return exact


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1))
def test_quotes_charges_and_answers_agree(seed: int) -> None:
    assert play(seed, contracts=8) > 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_quotes_charges_and_answers_agree_for_long(seed: int) -> None:
    assert play(seed, contracts=150) > 1000
