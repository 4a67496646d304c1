"""The curve on which diagnostics pay or do not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from defray.simulate.amortisation import RATES, amortisation_curve
from defray.simulate.run import Budget


def test_the_saving_grows_with_repeats_and_starts_at_nothing() -> None:
    rows = amortisation_curve(200, Budget(5.0, xi=0.05), seeds=3)
    assert [row["repeat_rate"] for row in rows] == list(RATES)
    savings = [row["saving"] for row in rows]
    assert savings[0] == pytest.approx(0, abs=1e-12)
    assert savings[-1] > 0.85
    assert all(b >= a - 0.02 for a, b in pairwise(savings))
    assert all(row["saving_low"] <= row["saving"] <= row["saving_high"] + 1e-12 for row in rows)


def test_the_break_even_is_the_purse_over_the_spending_without_credit() -> None:
    one, double, none = (
        [row["break_even"] for row in amortisation_curve(100, Budget(2.0, xi=xi), seeds=2)]
        for xi in (0.05, 0.1, 0.0)
    )
    assert double == pytest.approx([2 * x for x in one])
    assert none == [0.0] * len(RATES)
