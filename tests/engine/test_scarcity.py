"""A scarce budget, through the whole engine: every gate, its quotes, its partial answers, its memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defray.controller.goals import Wish
from defray.core.target import two_sided
from defray.engine import Engine
from defray.errors import BudgetRefused, MaxRhoRefused
from defray.ledger.memory import MemoryLedger
from defray.ledger.records import Arrival
from defray.noise.opendp_sampler import OpenDPSampler
from defray.query.region import Regions
from defray.session import Session
from defray.simulate.run import Budget
from defray.simulate.tables import ITEM, TABLE, from_truths
from defray.simulate.workload import Workload
from defray.transcript import terms_of
from tests.tables import people

GATES = {
    "refuse": "",
    "greedy": "",
    "paper": "horizon = 12",
    "fluid": "horizon = 12",
    "dual": "horizon = 12",
    "steady": "horizon = 12",
    "satisfy": "horizon = 12",
    "modest": "horizon = 12",
    "generous": "horizon = 12",
}
DIAGNOSED = ("paper", "fluid", "dual", "steady")


def count(age: int) -> str:
    return f"SELECT COUNT(*) FROM people WHERE age = {age}"


def price(within: float) -> float:
    z = two_sided(0.05)
    return z * z / (2 * within * within)


@contextmanager
def scarce(
    folder: Path,
    gate: str,
    *,
    rho: float = 0.1,
    xi: float = 0.0,
    more: str = "",
    support: str = "exact",
) -> Iterator[Session]:
    """The paper's one total, unless said otherwise: then all questions compete for it."""
    folder.mkdir(exist_ok=True)
    top = f'rho = {rho}\nxi = {xi}\ngate = "{gate}"\nsupport = "{support}"\n{GATES[gate]}\n{more}'
    with people(folder, top, rows=3000) as session:
        yield session


def asked(session: Session, sql: str, **wish: Any) -> Any:
    """The answer, or the refusal."""
    try:
        return session.ask(sql, **wish)
    except BudgetRefused as refused:
        return refused


@pytest.mark.parametrize("xi", [0.0, 0.05])
@pytest.mark.parametrize("gate", GATES)
def test_what_is_quoted_is_charged_and_the_contract_is_never_exceeded(
    tmp_path: Path, gate: str, xi: float
) -> None:
    """Twenty asks of a budget for about six: an exact quote is the charge to the last digit, a range holds
    it; what is left never falls below nothing; an answer that is not met says why and by how much."""
    with scarce(tmp_path, gate, xi=xi) as session:
        for n in range(20):
            within = 12.0 + n % 4
            try:
                quote = session.quote(count(n), within=within)
            except BudgetRefused:
                quote = None
            before = session.balance()["spent_rho"]
            found = asked(session, count(n), within=within)
            spent = session.balance()["spent_rho"] - before
            if isinstance(found, BudgetRefused):
                assert spent == 0
                assert quote is None or not quote.fits
                continue
            assert quote is not None
            assert spent == pytest.approx(found.charged_rho, rel=1e-9, abs=1e-12)
            if quote.exact:
                assert found.charged_rho == quote.charged_rho
            assert quote.low_rho <= found.charged_rho <= quote.high_rho
            if found.met:
                assert found.shortfall_rho == 0
                assert found.half_width <= within
            else:
                assert found.shortfall_rho > 0
                assert found.half_width > within
                assert any("stopped before the target was met" in note for note in found.notes)
                if quote.exact:
                    assert quote.shortfall_rho == pytest.approx(found.shortfall_rho, rel=1e-6)
                    assert quote.achieves is not None
                    assert quote.achieves["count"] == pytest.approx(found.half_width, rel=1e-9)
            needed = found.charged_rho + found.shortfall_rho
            assert needed == pytest.approx(price(within), rel=1e-6)
        balance = session.balance()
        assert balance["spent_rho"] <= balance["rho"]
        assert session.audit().ok
        assert session.quote(count(0), within=1000).charged_rho == 0 or gate == "satisfy"


def test_the_gates_differ_as_they_should(tmp_path: Path) -> None:
    """The same twelve asks: `refuse` serves the first and is spent; `fluid` gives everyone something."""
    answers = {}
    for gate in GATES:
        with scarce(tmp_path / gate, gate) as session:
            answers[gate] = [asked(session, count(n), within=12) for n in range(12)]
    given = {
        gate: [0.0 if isinstance(a, BudgetRefused) else a.charged_rho for a in found]
        for gate, found in answers.items()
    }
    full = price(12)
    fits = int(0.1 / full)
    assert given["refuse"] == pytest.approx([full] * fits + [0.0] * (12 - fits))
    assert given["greedy"][: fits + 1] == pytest.approx([full] * fits + [0.1 - fits * full])
    assert given["fluid"] == pytest.approx([0.1 / 12] * 12, rel=1e-3)
    assert sum(a > 0 for a in given["dual"]) == 12
    assert sum(given["dual"]) <= 0.1 + 1e-12
    # Unlocked little by little: as many are met, spread over the horizon rather than at its start.
    assert given["satisfy"][0] == 0 and sum(a > 0 for a in given["satisfy"]) == fits
    assert given["paper"][:fits] == pytest.approx([full] * fits)


def arrivals(session: Session) -> list[Arrival]:
    engine: Any = session._engine
    with engine.ledger.view() as view:
        found: list[Arrival] = view.arrivals(0, 1000)
    return found


@pytest.mark.parametrize("gate", DIAGNOSED)
def test_difficult_questions_are_cut_down_less(tmp_path: Path, gate: str) -> None:
    """Small counts weigh more than large ones, and under `dual` the shortfall is mu/2w (E.1)."""
    with scarce(tmp_path, gate, rho=0.2, xi=0.1, more="m_floor = 10") as session:
        small: list[float] = []
        large: list[float] = []
        for n in range(6):
            for sql, seen in (
                (f"SELECT COUNT(*) FROM people WHERE age < {60 + n}", large),
                (count(60 + n), small),
            ):
                asked(session, sql, within=9)
                seen.append(arrivals(session)[-1].weight)
        assert min(small) > max(large[1:])
        price_before, left, cut = 0.0, 0.2 * 0.9, 0
        for arrival in arrivals(session):
            shortfall = arrival.residual - arrival.granted
            left -= arrival.granted
            if gate == "dual" and arrival.granted > 0 and shortfall > 0 and left > 1e-9:
                assert shortfall == pytest.approx(price_before / (2 * arrival.weight), rel=1e-6)
                cut += 1
            price_before = arrival.price
        assert cut > 3 or gate != "dual"


def test_the_diagnostic_is_paid_from_its_purse_and_credited(tmp_path: Path) -> None:
    with scarce(tmp_path, "dual", rho=1, xi=0.05) as session:
        answer = session.ask(count(3), within=12)
        assert answer.met
        purses = {item.purse: item.charged_rho for item in answer.items}
        assert purses["diagnostic"] == pytest.approx(0.05 / 12, rel=1e-8)
        assert sum(purses.values()) == pytest.approx(price(12), rel=1e-6)
        assert session.ask(count(3), within=12).charged_rho == 0


def test_a_refused_question_paces_the_others_once(tmp_path: Path) -> None:
    """Asking again and again unlocks nothing; other questions do."""
    with scarce(tmp_path, "satisfy", rho=price(12) * 3.01) as session:
        for _ in range(30):
            assert isinstance(asked(session, count(1), within=12), BudgetRefused)
        assert session.balance()["scarcity"]["arrivals"] == 1
        for n in range(2, 4):
            assert isinstance(asked(session, count(n), within=12), BudgetRefused)
        assert session.ask(count(4), within=12).met  # a third of the horizon unlocks a third
        assert session.balance()["scarcity"]["arrivals"] == 4


def test_a_refusal_says_what_would_be_granted(tmp_path: Path) -> None:
    with scarce(tmp_path, "satisfy") as session:
        with pytest.raises(BudgetRefused, match="the gate satisfy keeps the rest") as refused:
            session.ask(count(1), within=5)
        assert refused.value.context["limit"] == "contract, gate"
        best = refused.value.context["best"]["count"]
        assert session.ask(count(1), within=best).met


def test_the_pace_outlives_the_process_and_is_shared(tmp_path: Path) -> None:
    """A session that opens later, and one beside it, decide as one that was there all the time."""
    with scarce(tmp_path, "dual") as first:
        for n in range(6):
            first.ask(count(n), within=12)
        with scarce(tmp_path, "dual") as second:
            assert first.quote(count(7), within=12) == second.quote(count(7), within=12)
            second.ask(count(7), within=12)
            assert first.quote(count(8), within=12) == second.quote(count(8), within=12)
            assert first.balance() == second.balance()


def measured(body: Any, counts: Any) -> int:
    """The true value of a logged release, in its lattice steps."""
    weights = body["weights"]
    if weights["kind"] == "cells":
        assert weights["bits"] == body["step"]
        return sum(w * int(c) for w, c in zip(weights["steps"], counts, strict=True))
    regions = Regions((9,))
    region = regions.from_json(weights["region"])
    inside = [i for i in range(9) if regions.contains(region, lambda _, at=i: at)]
    return sum(int(counts[i]) for i in inside) << body["step"]


class Coordinated:
    """Noise that makes another table answer what a first one did: what is drawn is the released value less
    the other's true one."""

    def __init__(self, released: list[int], truths: list[int]) -> None:
        self.left = list(zip(released, truths, strict=True))

    def draw(self, scales: list[float]) -> list[int]:
        return [value - truth for value, truth in (self.left.pop(0) for _ in scales)]


@pytest.mark.parametrize("support", ["exact", "linear"])
@pytest.mark.parametrize("gate", GATES)
def test_decisions_rest_on_what_was_released_alone(gate: str, support: Any) -> None:
    """Two tables that differ in every count, noise that happens to give the same releases: then every
    decision, charge, refusal, arrival and word of the log is the same (L1, L3)."""
    rng = np.random.default_rng(5)
    asks = [
        (int(i), float(w))
        for i, w in zip(rng.integers(0, 9, 40), rng.uniform(8, 20, 40), strict=True)
    ]
    counts = [np.exp(rng.normal(7, 2, 9)).round() + 1 for _ in range(2)]
    zeros = np.zeros(9, np.int64)
    budget = Budget(rho=0.1, xi=0.1, horizon=20 if GATES[gate] else None, m_floor=10)

    def run(truths: Any, sampler: Any) -> tuple[list[bytes], list[str]]:
        workload = Workload("two tables", np.arange(9), np.ones(9), truths, zeros)
        contract, source = from_truths(workload, budget)
        ledger = MemoryLedger(terms_of(contract))
        engine = Engine(replace(contract, gate=gate, support=support), ledger, source, sampler)
        said = []
        for item, within in asks:
            sql = f"SELECT COUNT(*) FROM {TABLE} WHERE {ITEM} BETWEEN {item} AND {min(item + 3, 8)}"
            try:
                said.append(
                    repr(engine.ask(sql, Wish.of(within, None, None, None, None)).to_dict())
                )
            except BudgetRefused as refused:
                said.append(repr(refused.to_dict()))
        bodies = [entry.read() for entry in ledger.entries()]
        for body in bodies:
            for name in ("prev", "fingerprint", "note"):
                body.pop(name, None)
        return bodies, said

    first, said = run(counts[0], OpenDPSampler())
    values, truths = [], []
    for body in first:
        if body["kind"] == "release":
            values.append(body["value"][0])
            truths.append(measured(body, counts[1]))
    assert len(values) > 5
    assert run(counts[1], Coordinated(values, truths)) == (first, said)


def test_a_list_is_priced_as_it_would_be_charged(tmp_path: Path) -> None:
    for gate in GATES:
        with scarce(tmp_path / gate, gate) as session:
            listed = [count(n % 9) for n in range(12)]
            quotes = session.quote_all(listed, within=12)
            for sql, quote in zip(listed, quotes, strict=True):
                found = asked(session, sql, within=12)
                charged = 0.0 if isinstance(found, BudgetRefused) else found.charged_rho
                assert quote.exact
                assert charged == pytest.approx(quote.charged_rho, abs=1e-15), gate


def test_groups_are_cut_down_where_they_need_most(tmp_path: Path) -> None:
    """A vector is charged by its dearest cell: cells of which more is known reach their target."""
    with scarce(tmp_path, "greedy", rho=price(12) * 1.2) as session:
        session.ask("SELECT COUNT(*) FROM people WHERE sex = 'F'", within=13)
        answer = session.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex", within=8)
        met = {row.group["sex"]: row.half_width for row in answer}
        assert not answer.met
        assert met["F"] < met["M"] == pytest.approx(met[None])
        assert session.balance()["remaining_rho"] == pytest.approx(0, abs=1e-9)
        assert session.audit().ok


@pytest.mark.long
def test_averages_and_percentages_pass_the_gate_too(tmp_path: Path) -> None:
    for gate in GATES:
        with scarce(tmp_path / gate, gate, rho=0.5, xi=0.1, more="m_floor = 50") as session:
            for n in range(8):
                for sql, within in (
                    (f"SELECT AVG(income) FROM people WHERE age < {40 + n}", 4000),
                    (f"SELECT COUNT(*) FROM people WHERE age < {40 + n}", "3%"),
                ):
                    found = asked(session, sql, within=within)
                    if not isinstance(found, BudgetRefused):
                        assert found.met == (found.shortfall_rho == 0)
            balance = session.balance()
            assert balance["spent_rho"] <= 0.5
            assert session.audit().ok


def test_the_callers_ceiling_counts_what_is_granted(tmp_path: Path) -> None:
    with scarce(tmp_path, "fluid") as session:
        granted = session.quote(count(1), within=12).charged_rho
        with pytest.raises(MaxRhoRefused):
            session.ask(count(1), within=12, max_rho=granted * 0.99)
        assert session.ask(count(1), within=12, max_rho=granted).charged_rho == granted


@pytest.mark.parametrize("gate", ["fluid", "dual", "satisfy"])
def test_threads_and_sessions_share_one_pace(tmp_path: Path, gate: str) -> None:
    """Asks from eight threads through two sessions: arrivals are numbered without a gap, each question once,
    and nothing is overspent."""
    with scarce(tmp_path, gate, xi=0.05) as one, scarce(tmp_path, gate, xi=0.05) as two:
        one.ask(count(90), within=100)
        asks = [(session, count(n % 12)) for n in range(24) for session in (one, two)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda ask: asked(ask[0], ask[1], within=12), asks))
        assert not any(isinstance(a, Exception) and not isinstance(a, BudgetRefused) for a in found)
        seen = arrivals(one)
        assert [a.number for a in seen] == list(range(1, len(seen) + 1))
        assert len({a.mark for a in seen}) == len(seen) == 13
        assert one.balance() == two.balance()
        assert one.balance()["spent_rho"] <= 0.1
        assert one.audit().ok
        assert one.quote(count(50), within=12) == two.quote(count(50), within=12)
