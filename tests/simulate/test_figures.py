"""Figures: the finding follows from the rows, and every encoding has its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray import charts
from defray.charts import Figure
from defray.simulate.figures import (
    OBJECTIVES,
    TARGETS,
    WEIGHTED,
    amortisation,
    figures,
    pareto,
    ratio,
    satisfied,
    schemes,
    separation,
    shortfall,
    spend,
)
from defray.simulate.figures.diagnostics import crossing
from defray.simulate.figures.objectives import undominated
from defray.simulate.results import Results, simulate
from defray.simulate.run import Budget
from defray.simulate.schemes import SCHEMES
from defray.simulate.workload import Workload

NAMES = ("paper", "dual", "qif_dual", "qif_paper", "SA", "AC", "BP")
CURVE = [{"repeat_rate": r / 4, "saving": r / 5, "break_even": 0.3} for r in range(4)]


def asked(seed: int) -> Workload:
    chance = np.random.default_rng(seed)
    keys = chance.integers(0, 30, 60)
    demands = np.exp(chance.uniform(-8, -2, 60))
    truths = np.exp(chance.normal(6, 1.5, 30))[keys]
    return Workload("sixty asks", keys, demands, truths, chance.integers(0, 3, 60))


@pytest.fixture(scope="module", params=[0.2, 50.0], ids=["scarce", "ample"])
def found(request: pytest.FixtureRequest) -> Results:
    budget = Budget(rho=request.param, xi=0.05, horizon=60, m_floor=5)
    return simulate(asked, [SCHEMES[name] for name in NAMES], budget, seeds=4)


# -- specs -------------------------------------------------------------------------------------------


def units(
    spec: dict[str, Any], data: Any = None, encoding: Any = None
) -> Iterator[tuple[Any, Any]]:
    """The rows and the encodings of every mark."""
    data = spec.get("data", data)
    encoding = {**(encoding or {}), **spec.get("encoding", {})}
    if "layer" not in spec:
        yield data["values"], encoding
    for layer in spec.get("layer", ()):
        yield from units(layer, data, encoding)


def fields(encoding: Any) -> Iterator[str]:
    for channel in encoding.values():
        for part in channel if isinstance(channel, list) else [channel]:
            if part and "field" in part:
                yield part["field"]


def unfounded(figure: Figure) -> list[str]:
    """Fields of encodings that some row of their data lacks."""
    spec = dict(figure.spec)
    return [f for rows, e in units(spec) for f in fields(e) for row in rows or [{}] if f not in row]


def test_every_field_of_an_encoding_is_in_its_data(found: Results):
    for figure in figures(found, {"amortisation": CURVE}):
        assert unfounded(figure) == [], figure.name


def test_that_test_sees_a_field_that_is_missing():
    spec = {
        "data": {"values": [{"x": 1}]},
        "layer": [{"encoding": {"x": {"field": "x"}, "y": {"field": "y"}}}],
    }
    assert unfounded(Figure("n", "t", "s", spec, (), ())) == ["y"]


def test_every_figure_is_drawn_without_a_warning(found: Results, capfd: pytest.CaptureFixture[str]):
    import vl_convert

    for figure in figures(found):
        vl_convert.vegalite_to_svg({"width": 300, **figure.spec}, show_warnings=True)
    assert capfd.readouterr().err == ""


def test_every_figure_tells_its_finding_and_its_numbers(found: Results):
    drawn = figures(found)
    assert len({figure.name for figure in drawn}) == len(drawn)
    for figure in drawn:
        assert figure.title and figure.summary.endswith(".")
        assert figure.rows and {len(row) for row in figure.rows} == {len(figure.columns)}


def test_a_policy_has_one_look_in_all_figures(found: Results):
    looks = set()
    for figure in figures(found):
        for _, encoding in units(dict(figure.spec)):
            looks |= {str(encoding[c]["scale"]) for c in ("color", "shape") if c in encoding}
    assert len(looks) == 2


def test_nothing_is_drawn_of_nothing():
    nothing = Results("w", 1.0, 0.0, None, 1)
    assert figures(nothing) == () == schemes(nothing)


# -- findings ----------------------------------------------------------------------------------------


def course(name: str, spent: list[float], met: list[float]) -> list[dict[str, Any]]:
    return [
        {"scheme": name, "t": t, "spent": s, "spent_low": s, "spent_high": s,
         "satisfied": m, "satisfied_low": m, "satisfied_high": m}
        for t, s, m in zip(range(1, len(spent) + 1), spent, met, strict=True)
    ]  # fmt: skip


SERIES = course("greedy", [0.4, 0.8, 1.0], [1, 2, 2]) + course("SA", [0.6, 1.0, 1.0], [1, 1, 1])


def test_who_uses_up_the_budget_first():
    drawn = spend(SERIES, ("greedy", "SA"), 1.0)
    assert drawn and drawn.title == "2 of 2 policies use up the budget; SA first, after 2 of 3 asks"
    assert drawn.rows[-1] == (3, 1.0, 1.0)


def test_a_budget_that_lasts():
    drawn = spend(SERIES, ("greedy", "SA"), 10.0)
    assert drawn and drawn.title == "The budget is not used up: greedy spends most, 10 % of it"
    assert "lies above the chart" in drawn.summary


def test_who_meets_most_targets():
    drawn = satisfied(SERIES, ("greedy", "SA"))
    assert drawn and drawn.title == "Most targets are met by greedy: 2 of 3; fewest by SA: 1"


def test_the_price_of_a_met_target_without_credit():
    drawn = separation(SERIES, ("greedy", "SA"))
    assert drawn
    assert drawn.title == "A met target costs 0.5 rho with credit (greedy), 2 times that under SA"
    assert separation(course("greedy", [1.0], [1]), ("greedy",)) is None


def test_an_objective_is_sorted_from_its_best(found: Results):
    for objective in OBJECTIVES:
        drawn = ratio(found.totals, schemes(found), objective)
        if drawn is None:
            assert all(row[objective.column] is None for row in found.totals)
            continue
        means = [row[1] for row in drawn.rows]
        assert means == sorted(means, reverse=objective.more)
        for name, mean, low, high in drawn.rows:
            own = [row[objective.column] for row in found.totals if row["scheme"] == name]
            assert mean == pytest.approx(np.mean(own))
            assert [low, high] == pytest.approx(list(np.quantile(own, (0.1, 0.9))))


def test_equal_policies_share_the_first_place():
    totals = [
        {"scheme": n, "seed": 0, "nsat_ratio": r} for n, r in (("a", 0.5), ("b", 0.9), ("c", 0.9))
    ]
    drawn = ratio(totals, ("a", "b", "c"), TARGETS)
    assert drawn and drawn.title.endswith("b and c, 0.9 of it; last: a, 0.5")
    alone = ratio(totals[1:], ("b", "c"), TARGETS)
    assert alone and alone.title.endswith("all policies, 0.9 of it")


pairs = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(st.dictionaries(st.text(max_size=2), pairs, min_size=1))
def test_the_front_is_who_is_not_beaten(worth: dict[str, tuple[float, float]]):
    front = undominated(worth)
    best = max(worth.values())
    assert all(n in front for n in worth if worth[n] == best)
    for name, (x, y) in worth.items():
        beaten = [n for n in front if worth[n][0] >= x and worth[n][1] >= y and worth[n] != (x, y)]
        assert (name in front) == (not beaten)


def test_the_front_of_a_cheap_and_a_thorough_policy():
    totals = [
        {"scheme": n, "seed": 0, "jw_ratio": j, "nsat_ratio": s}
        for n, j, s in (("kind", 1.5, 0.4), ("many", 3.0, 0.9), ("lost", 3.5, 0.8))
    ]
    drawn = pareto(totals, ("kind", "many", "lost"), WEIGHTED, TARGETS)
    assert drawn
    assert drawn.title == "No policy is best in both: 2 of 3 are on the front, kind and many"
    assert [row[3] for row in drawn.rows] == ["yes", "yes", "no"]


def test_shortfall_by_quarters_of_difficulty():
    asks = [
        {"scheme": "qif", "t": t, "demand": 1.0, "weight": float(w), "granted": 0.1, "support": 0.1,
         "shortfall": 1 / (2 * w), "met": False}
        for t, w in enumerate((1, 2, 4, 8))
    ]  # fmt: skip
    free = {**asks[0], "weight": 16.0, "granted": 0.0, "shortfall": 0.0, "met": True}
    drawn = shortfall([*asks, free], ("qif",))
    assert drawn and drawn.rows == (("qif", 0.5, 0.0625, 4, 4),)
    assert shortfall([{**ask, "weight": 1.0} for ask in asks], ("qif",)) is None


# -- diagnostics -------------------------------------------------------------------------------------


@given(st.floats(0.01, 0.99), st.integers(2, 40))
def test_diagnostics_pay_from_where_the_lines_cross(even: float, places: int):
    rows = [
        {"repeat_rate": i / places, "saving": i / places, "break_even": even}
        for i in range(places + 1)
    ]
    assert crossing(rows) == pytest.approx(even)
    assert crossing([{**row, "saving": even - 0.001} for row in rows]) is None
    assert crossing([{**row, "saving": even + 0.001} for row in rows]) == 0


def test_the_curve_says_where():
    drawn = amortisation([], CURVE, 0.0)
    assert (
        drawn
        and drawn.title == "Diagnostics pay for themselves once 37.5 % of the asks are repeats"
    )


def test_the_saving_of_policies_that_meet_all_is_the_identity_of_the_paper(found: Results):
    drawn = amortisation(found.totals, (), found.xi * found.rho)
    if found.rho < 1:
        assert drawn is None  # SA does not meet all its targets
        return
    assert drawn
    spent = {(row["scheme"], row["seed"]): row for row in found.totals}
    for name, saving, *_, even in drawn.rows:
        savings = [
            1 - (spent[name, s]["spent"] - spent[name, s]["diagnostic"]) / spent["SA", s]["spent"]
            for s in range(found.seeds)
        ]
        evens = [found.xi * found.rho / spent["SA", s]["spent"] for s in range(found.seeds)]
        assert (saving, even) == (pytest.approx(np.mean(savings)), pytest.approx(np.mean(evens)))
    assert {row[0] for row in drawn.rows} == {"qif_dual", "qif_paper"}


def test_long_names_are_cut_in_titles_alone():
    name = "n" * 500
    totals = [{"scheme": name, "seed": 0, "nsat_ratio": 0.5}]
    drawn = ratio(totals, (name,), TARGETS)
    assert drawn and len(drawn.title) < 120 and drawn.rows[0][0] == name
    assert charts.svg(drawn)
