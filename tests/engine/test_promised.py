"""What a contract promises is never refused, whatever else is asked; and no cell pays more than the cap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defray.books import balance
from defray.config.reader import parse_contract
from defray.controller.goals import Wish
from defray.core.amounts import rho_of
from defray.core.contract import Contract
from defray.data.counted import CountedSource
from defray.engine import Engine
from defray.errors import BudgetRefused, ContractError, MaxRhoRefused, Refused
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.past import Past, overlap_of
from defray.standing import check_promises
from defray.support.overlap import AIM, Overlap
from defray.support.promised import commitments_of
from defray.transcript import terms_of

CITIES = ("Bern", "Oslo", "Rome", "Wien")


def contract_of(
    days: int = 16, *, promises: str = "", rho: str = "1", top: str = "", city: bool = True
) -> Contract:
    cities = ", ".join(f'"{c}"' for c in CITIES)
    text = f"""
version = 1
table = "visits"
rho = {rho}
n_max = 100000
{top}
[source]
kind = "csv"
path = "visits.csv"

[columns.day]
type = "integer"
min = 0
max = {days - 1}
null = "drop"

[columns.sex]
type = "string"
values = ["f", "m"]
null = "drop"

[columns.fee]
type = "integer"
bounds = [0, 100]

{f'[columns.city]{chr(10)}type = "string"{chr(10)}values = [{cities}]{chr(10)}null = "drop"' if city else ""}

{promises}
"""
    return parse_contract(text, Path("visits.toml"))


def promise(columns: Sequence[str], kinds: Sequence[str], within: float = 50) -> str:
    listed = ", ".join(f'"{c}"' for c in columns)
    each = ", ".join(f'"{k}"' for k in kinds)
    return f"[[promise]]\ncolumns = [{listed}]\nkind = [{each}]\nwithin = {within}\n"


RANGES = promise(["day"], ["ranges"])


def needs(contract: Contract) -> float:
    """What the promises of a contract hold back in all at first, in rho."""
    made = commitments_of(contract, AIM**2)
    return float(sum(rho_of(c.needs, contract.rho) for c in made))


def tight(spare: float = 1.01, **rest: Any) -> Contract:
    """A contract whose budget is hardly more than what its promises need."""
    rho = needs(contract_of(**rest)) * spare
    if "xi = " in rest.get("top", ""):
        rho /= 0.9
    return contract_of(**{**rest, "rho": f"{rho:.12g}"})


class Desk:
    """An engine over a made table; everything that must hold is checked after every question."""

    def __init__(
        self, contract: Contract, seed: int = 0, ledger: MemoryLedger | None = None
    ) -> None:
        self.contract = contract
        self.ledger = ledger or MemoryLedger(terms_of(contract))
        rng = np.random.default_rng(seed)
        domain = contract.domain
        atoms = {c.name: rng.integers(0, c.width, 3000) for c in domain.columns}
        source = CountedSource(domain, atoms)
        self.engine = Engine(contract, self.ledger, source, OpenDPSampler())

    def ask(self, sql: str, within: Any = None, **wish: Any) -> Any:
        """The answer, or the refusal."""
        named = ("confidence", "rho", "simultaneous", "snap", "validity")
        made = Wish.of(within, *(wish.get(name) for name in named))
        try:
            return self.engine.ask(f"SELECT {sql}", made, max_rho=wish.get("max_rho"))
        except Refused as refused:
            return refused

    def must(self, sql: str, within: Any = 50, **wish: Any) -> Any:
        answer = self.ask(sql, within, **wish)
        assert not isinstance(answer, Refused), f"{sql} within {within}: {answer}"
        assert answer.met
        assert all(row.half_width <= within for row in answer.rows)
        return answer

    def overlap(self) -> Overlap:
        with self.ledger.view() as view:
            epoch = view.epoch
            past = Past(1 if epoch is None else epoch.counter, self.contract)
            return overlap_of(self.contract, self.ledger.terms.caps, past, view)

    def holds(self, kept: int = 1) -> Overlap:
        """The promises are kept, the reserve is no debt, and no cell has paid or owes more than its cap."""
        overlap = self.overlap()
        assert overlap.kept == kept
        assert overlap.room.sound
        for c, p in zip(
            overlap.history.promised.commitments, overlap.history.reserves().promises, strict=True
        ):
            state = overlap.history.state("count", c.axes, 1.0)
            assert np.linalg.eigvalsh(p.reserve)[0] >= -2 * p.tiny
            shadow = state.precision + p.reserve - c.start.reserve
            assert np.linalg.eigvalsh(shadow)[0] >= -1e-6 * c.start.held.max()
        return overlap


def ranges(days: int, rng: np.random.Generator) -> str:
    low, high = sorted(rng.integers(0, days, 2).tolist())
    return f"COUNT(*) FROM visits WHERE day BETWEEN {low} AND {high}"


def outside(days: int, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Something that would use up what is promised."""
    low = int(rng.integers(0, days))
    chosen = ", ".join(map(str, rng.choice(days, 3, replace=False).tolist()))
    city = CITIES[int(rng.integers(4))]
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"COUNT(*) FROM visits WHERE day >= {low} AND city = '{city}'", {}),
        (f"COUNT(*) FROM visits WHERE day IN ({chosen})", {}),
        ("COUNT(*) FROM visits GROUP BY city", {}),
        ("COUNT(*) FROM visits GROUP BY day, sex", {}),
        (f"SUM(fee) FROM visits WHERE day <= {low}", {"within": 3000}),
        (f"COUNT(*) FROM visits WHERE day = {low}", {"rho": 10 ** rng.uniform(-5, -3)}),
        ("COUNT(*) FROM visits GROUP BY day", {"rho": 10 ** rng.uniform(-5, -3)}),
        (f"COUNT(*) FROM visits WHERE day > {low}", {"validity": "anytime"}),
        (f"COUNT(*) FROM visits WHERE day > {low}", {"validity": "confirm"}),
        (f"COUNT(*) FROM visits WHERE day <= {low}", {"within": 50 * 10 ** rng.uniform(-1, 0)}),
        ("COUNT(*) FROM visits", {"within": 5}),
    ]
    sql, wish = asked[int(rng.integers(len(asked)))]
    if "rho" not in wish:
        wish = {"within": 30 * 10 ** rng.uniform(-0.7, 0.7), **wish}
    return sql, wish


@pytest.mark.parametrize("spare", [1.0001, 1.05, 2.0])
@pytest.mark.parametrize("seed", range(2))
def test_ranges_are_never_refused_whatever_else_is_asked(spare: float, seed: int) -> None:
    desk = Desk(tight(spare, promises=RANGES), seed)
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(60):
        if rng.random() < 0.5:
            desk.must(ranges(16, rng), 50 if rng.random() < 0.7 else 50 * (1 + rng.exponential()))
        else:
            sql, wish = outside(16, rng)
            refused += isinstance(desk.ask(sql, **wish), Refused)
        desk.holds()
    assert refused or spare > 1.5


def test_its_twin_without_the_promise_is_refused() -> None:
    """The same questions, the same budget."""
    contract = tight(1.0001, promises=RANGES)
    plain = contract_of(rho=str(float(contract.rho)))
    rng = np.random.default_rng(5)
    asked = [ranges(16, rng) for _ in range(120)]
    kept, starved = Desk(contract), Desk(plain)
    for desk in (kept, starved):
        for _ in range(30):
            desk.ask("COUNT(*) FROM visits GROUP BY city", rho=1e-4)
    for sql in asked:
        kept.must(sql)
    kept.holds()
    assert sum(isinstance(starved.ask(sql, 50), BudgetRefused) for sql in asked) > 20


SEVERAL = (
    promise(["day"], ["ranges"], 40)
    + promise(["day", "sex"], ["ranges", "subsets"], 90)
    + promise(["city", "sex"], ["cells", "cells"], 60)
)


@pytest.mark.parametrize("seed", range(2))
def test_several_promises_on_columns_that_they_share(seed: int) -> None:
    desk = Desk(tight(1.001, promises=SEVERAL, days=8), seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        one = ranges(8, rng)
        sex, city = ("f", "m")[int(rng.integers(2))], CITIES[int(rng.integers(4))]
        match int(rng.integers(5)):
            case 0:
                desk.must(one, 40)
            case 1:
                desk.must(f"{one} AND sex = '{sex}'", 90)
            case 2:
                desk.must(f"COUNT(*) FROM visits WHERE sex = '{sex}' AND city = '{city}'", 60)
            case 3:
                desk.must(f"COUNT(*) FROM visits WHERE sex = '{sex}'", 90)
            case _:
                sql, wish = outside(8, rng)
                desk.ask(sql, **wish)
        desk.holds(3)


@pytest.mark.parametrize("grouped", ["day", "day, sex", "sex"])
@pytest.mark.parametrize("seed", range(2))
def test_a_group_by_of_promised_cells_is_not_refused(grouped: str, seed: int) -> None:
    made = promise(["day", "sex"], ["ranges", "subsets"], 50)
    desk = Desk(tight(1.0001, promises=made, days=6), seed)
    rng = np.random.default_rng(seed)
    for _ in range(8):
        desk.must(f"{ranges(6, rng)} AND sex = 'f'", 50)
        sql, wish = outside(6, rng)
        desk.ask(sql, **wish)
    desk.must(f"COUNT(*) FROM visits GROUP BY {grouped}", 50)
    desk.must(f"COUNT(*) FROM visits WHERE day > 2 GROUP BY {grouped}", 50)
    desk.holds()


@pytest.mark.parametrize(
    "gate", ["paper", "fluid", "dual", "steady", "satisfy", "modest", "generous"]
)
def test_no_gate_holds_a_promised_question_back(gate: str) -> None:
    top = f'gate = "{gate}"\nhorizon = 1000\nxi = 0.1'
    desk = Desk(tight(1.2, promises=RANGES, top=top))
    rng = np.random.default_rng(1)
    for _ in range(15):
        sql = ranges(16, rng)
        quote = desk.engine.quote(f"SELECT {sql}", Wish.of(50, None, None, None, None, None))
        assert quote.fits
        answer = desk.must(sql)
        assert quote.exact
        assert answer.charged_rho == quote.charged_rho
        desk.ask(*outside(16, rng)[:1], 30)
        desk.holds()


def test_what_is_quoted_is_charged_and_a_ceiling_is_respected() -> None:
    desk = Desk(tight(1.0001, promises=RANGES))
    sql = "COUNT(*) FROM visits WHERE day BETWEEN 3 AND 9"
    wish = Wish.of(50, None, None, None, None, None)
    first, again = desk.engine.quote_all([(f"SELECT {sql}", wish)] * 2)
    assert first.fits
    assert again.charged_rho == 0
    assert isinstance(desk.ask(sql, 50, max_rho=first.charged_rho / 2), MaxRhoRefused)
    assert desk.must(sql).charged_rho == first.charged_rho
    assert desk.must(sql).charged_rho == 0


def test_a_refusal_names_what_is_promised() -> None:
    desk = Desk(tight(1.0001, promises=RANGES))
    refused = desk.ask("COUNT(*) FROM visits WHERE day < 9", 5)
    assert isinstance(refused, BudgetRefused)
    assert refused.context["best"] == {"count": "50"}
    desk.must("COUNT(*) FROM visits WHERE day < 9", float(refused.context["best"]["count"]))


def test_the_log_alone_says_what_is_held_back() -> None:
    """Another engine on the same ledger, which replays it, decides the same."""
    contract = tight(1.02, promises=RANGES)
    desk = Desk(contract)
    rng = np.random.default_rng(2)
    for _ in range(20):
        desk.must(ranges(16, rng))
        sql, wish = outside(16, rng)
        desk.ask(sql, **wish)
    second = Desk(contract, ledger=desk.ledger)
    a, b = desk.holds(), second.holds()
    assert np.array_equal(
        a.history.reserves().promises[0].reserve, b.history.reserves().promises[0].reserve
    )
    for _ in range(20):
        second.must(ranges(16, rng))
        second.holds()


def test_a_promise_that_the_budget_cannot_keep_is_an_error_when_the_contract_opens() -> None:
    poor = tight(0.999, promises=RANGES)
    with pytest.raises(ContractError) as caught:
        check_promises(poor, MemoryLedger(terms_of(poor)))
    (problem,) = caught.value.problems
    assert problem.key == "promise"
    assert "ranges of day within 50 at 95% needs" in problem.message
    rich = tight(1.001, promises=RANGES)
    check_promises(rich, MemoryLedger(terms_of(rich)))


def test_a_promise_that_comes_too_late_is_an_error() -> None:
    """What was spent before counts, unless the promise can make use of it."""
    contract = tight(1.001, promises=RANGES)
    plain = contract_of(rho=str(float(contract.rho)))
    spent = Desk(plain)
    spent.ask("COUNT(*) FROM visits WHERE city = 'Oslo'", rho=1e-4)
    with pytest.raises(ContractError, match="ranges of day"):
        check_promises(contract, spent.ledger)


def test_the_balance_says_what_is_held_back_and_what_has_lapsed() -> None:
    contract = tight(2.5, promises=RANGES + promise(["sex"], ["cells"], 40), days=8)
    desk = Desk(contract, seed=1)
    before = balance(contract, desk.ledger)["promises"]
    assert [p["kept"] for p in before] == [True, True]
    assert all(p["holds_rho"] == p["needs_rho"] for p in before)
    for low in range(8):
        for high in range(low, 8):
            desk.must(f"COUNT(*) FROM visits WHERE day BETWEEN {low} AND {high}")
    one, two = balance(contract, desk.ledger)["promises"]
    assert one["holds_rho"] < before[0]["holds_rho"] / 2
    assert two == before[1]
    desk.ask("COUNT(*) FROM visits GROUP BY city", rho=float(contract.rho) * 0.4)
    desk.holds(2)
    # Another version of the data: what was spent counts for every cell, and nothing is known.
    later = Desk(contract, seed=2, ledger=desk.ledger)
    later.must("COUNT(*) FROM visits WHERE day > 3")
    later.holds(1)
    told = balance(contract, desk.ledger)
    assert [p["kept"] for p in told["promises"]] == [True, False]
    (note,) = [n for n in told["notes"] if "lapsed" in n]
    assert note.startswith("the promise of cells of sex within 40 at 95% has lapsed: it needs")
    check_promises(contract, desk.ledger)  # said, not refused: known answers stay free
    rng = np.random.default_rng(0)
    for _ in range(20):
        later.must(ranges(8, rng))
        sql, wish = outside(8, rng)
        later.ask(sql, **wish)
        later.holds(1)


def test_units_of_several_rows_pay_for_each() -> None:
    unit = '[unit]\ncolumn = "person"\nmax_rows = 3\n'
    one, three = contract_of(promises=RANGES), contract_of(promises=RANGES + unit)
    assert needs(three) == pytest.approx(9 * needs(one))
    rho = f"{needs(three) * 1.001:.12g}"
    desk = Desk(contract_of(promises=RANGES + unit, rho=rho))
    rng = np.random.default_rng(0)
    for _ in range(20):
        desk.must(ranges(16, rng))
        desk.holds()


@pytest.mark.slow
@pytest.mark.parametrize("spare", [1.0001, 1.02, 1.3])
def test_thousands_of_questions(spare: float) -> None:
    """Two thirds of the class, the rest to starve it; everything is checked every hundred."""
    desk = Desk(tight(spare, promises=RANGES + promise(["city", "sex"], ["subsets"] * 2, 80)), 7)
    rng = np.random.default_rng(7)
    for n in range(3000):
        draw = rng.random()
        if draw < 0.5:
            desk.must(ranges(16, rng), 50 * float(rng.choice([1, 1, 1.3, 2])))
        elif draw < 0.65:
            some = rng.choice(CITIES, int(rng.integers(1, 4)), replace=False)
            listed = ", ".join(f"'{c}'" for c in some)
            desk.must(f"COUNT(*) FROM visits WHERE city IN ({listed}) AND sex = 'f'", 80)
        else:
            sql, wish = outside(16, rng)
            desk.ask(sql, **wish)
        if n % 100 == 0:
            desk.holds(2)
    desk.holds(2)
