"""What is measured beside the peers, on small twins of their workloads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.peers import adult, apex, covid, marginals, predicates
from benchmarks.peers.admission import Paced
from benchmarks.peers.baselines import (
    answered_by_histograms,
    answered_with_repeats,
    by_cone,
    exact_repeats,
    least,
    no_reuse,
    rank_one,
)
from benchmarks.peers.course import Ask, View, play
from benchmarks.views import ranges
from defray.support.view.metric import metric


def test_others_pay_what_their_rules_say():
    q = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    v = np.array([2.0, 1.0, 4.0, 1.0])
    assert no_reuse(q, v) == (2.75, 2.75)
    assert exact_repeats(q, v) == (2.0, 2.0)
    # (1, 1, 0) is known at variance 2 before (0, 1, 1), which tells hardly more of it
    assert rank_one(q, v) == pytest.approx((2.0, 2.0), abs=1e-4)
    assert answered_with_repeats(list(q), v, list("aaaa"), 1.0) == 3
    assert answered_with_repeats(list(q), v, list("abaa"), 2.0) == 4
    assert answered_by_histograms([1, 2, 1], np.array([1.0, 2.0, 0.5]), list("aab"), 2.0) == 2


@pytest.mark.parametrize("variance", [1.0, 1e-6, 1e9])
def test_the_bound_is_that_of_a_general_solver_in_any_unit(variance):
    q = np.unique(ranges(6, 12, np.random.default_rng(2)), axis=0)
    bound, optimum = least(q, np.full(len(q), variance)) * variance, by_cone(q)
    assert 0.99 * optimum <= bound <= optimum * (1 + 1e-6)


def test_a_course_keeps_to_its_cap_and_its_claims():
    rng = np.random.default_rng(5)
    asks = [Ask("ab"[i % 2], q, 4.0, 6.0) for i, q in enumerate(ranges(12, 60, rng))]
    truth = rng.integers(0, 99, 12).astype(float)
    views = {name: View(metric((12,), (True,)), truth) for name in "ab"}
    course = play(asks, views, 1e4, cap=1.2, gate=Paced(1.2, len(asks), 2), seeds=40)
    assert course.charge <= 1.2 * (1 + 1e-9)
    assert course.asked == 60 and 0 < course.answered < 60
    assert course.answered == course.free + course.releases
    assert max(course.claims) <= 1 + 1e-8
    assert max(course.squares) < 3 and 0 <= course.broken < 0.02


def test_a_twin_of_counts_beside_its_bound():
    found = covid.measure(covid.twin(60, (2, 3, 2)), seeds=20)
    told = found.to_dict()
    assert told["answered"] == 60 and told["broken_target_share"] < 0.01
    assert told["offline_bound_units"] <= told["units"] <= told["exact_repeats_by_cell_units"]
    assert told["spent_rho"] == pytest.approx(told["units"] * told["rho_of_one_question"])
    log = math.log(1 / told["delta"])
    assert told["epsilon"] == pytest.approx(
        told["spent_rho"] + 2 * math.sqrt(told["spent_rho"] * log)
    )
    section = covid.section("covid", "twin", found, goal=1000.0)
    assert section.goals[0].met and section.rows[0][0] == "Defray"


def test_a_twin_of_ranges_under_a_budget():
    workload = adult.twin(150)
    found = adult.measure(workload, 0.8, seeds=20)
    told = found.to_dict()
    assert told["spent_rho"] <= told["budget_rho"] * (1 + 1e-9)
    assert told["answered"] > told["exact_repeats_answered"]
    assert told["largest_claimed_variance"] <= 1 + 1e-8
    assert told["largest_mean_squared_error"] <= told["chance_allows"]
    assert all(goal.met for goal in adult.section("adult", "twin", [found], {}).goals)


def test_precise_questions_of_rare_columns_do_not_take_the_budget():
    workload = adult.twin(800)
    asks = sorted(workload.asks(), key=lambda a: (a.view == "column_0", a.variance))
    cap = 2 * adult.rho_of(0.4, adult.DELTA)
    views = {name: View(metric((50,), (True,))) for name in workload.counts}
    gated = play(asks, views, 1e6, cap=cap, gate=Paced(cap, len(asks), 6), level=False)
    greedy = play(asks, views, 1e6, cap=cap, level=False)
    assert gated.answered > 1.5 * greedy.answered


def test_histograms_and_running_sums_are_credited_to_each_other():
    answered, charge = apex.measure(apex.twin(6), seeds=20)
    assert [a.charge > 0 for a in answered] == [True] * 4 + [False] * 2
    assert charge <= sum(a.charge for a in answered) * (1 + 1e-9)
    assert max(a.broken or 0.0 for a in answered) <= 0.05
    values = np.array([0, 0, 1, 49, 50, 51, 300, 5e3])
    counts, asked = apex.counts(values, 6), apex.questions(6)
    in_bins = [((values >= 50 * i) & (values < 50 * (i + 1))).sum() for i in range(6)]
    up_to = [((values > 0) & (values <= 50 * (i + 1))).sum() for i in range(6)]
    assert (asked["wcq1"] @ counts).tolist() == in_bins
    assert (asked["wcq2"] @ counts).tolist() == up_to


def test_predicates_and_marginals_meet_their_goals_on_small_tables():
    line = metric((12,), (True,))
    kind = predicates.Kind("small", lambda r: ranges(12, 40, r), line, ratio=1.3)
    sections = [
        predicates.charges((kind,), seeds=20),
        predicates.checked(6, 10),
        marginals.ratios([("small", (2, 3, 4), marginals.random_targets, 1, 1.3, 1.3)]),
    ]
    goals = [g for s in sections for g in s.goals if "ms" not in g.what]
    assert goals and all(g.met for g in goals), [str(g) for g in goals]
    drawn = marginals.errors((3, 2, 2), seeds=60, rows=500).to_dict()["rows"][0]
    assert drawn["rho"] < drawn["exact repeats"]
    assert drawn["share broken"] < 0.15 and drawn["largest"] < 2
