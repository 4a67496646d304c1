"""What was answered is not paid again, however views grow, whatever else is asked and how precisely."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.counted import Table, amount, whole

PLANE = whole("a", 39) + whole("b", 39)


def boxes(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        (a, b), (c, d) = (sorted(rng.integers(0, 40, 2)) for _ in "ab")
        found.append(f"COUNT(*) FROM t WHERE a BETWEEN {a} AND {b} AND b BETWEEN {c} AND {d}")
    return found


@pytest.mark.long
def test_random_boxes_that_outgrow_a_view_stay_free():
    table = Table(PLANE)
    asked = boxes(1, 45)
    for sql in asked:
        assert table.ask(sql, 300).met
    assert [table.price(sql, 300) for sql in asked] == [0] * len(asked)
    assert table.session.audit().ok


def test_tables_over_single_columns_leave_boxes_free():
    table = Table(PLANE)
    asked = boxes(2, 3)
    for sql in asked:
        table.ask(sql, 50)
    table.ask("a, COUNT(*) FROM t GROUP BY a", 200)
    table.ask("b, COUNT(*) FROM t GROUP BY b", 200)
    assert [table.price(sql, 50) for sql in asked] == [0, 0, 0]


def test_a_union_that_history_answers_stays_free_while_the_view_grows():
    table = Table(PLANE)
    table.ask("COUNT(*) FROM t WHERE a < 5 AND b < 5", 50)
    table.ask("COUNT(*) FROM t WHERE a < 5 AND b >= 5", 50)
    union = "COUNT(*) FROM t WHERE a < 5"
    assert table.ask(union, 100).charged_rho == 0
    for sql in boxes(3, 8):
        table.ask(sql, 300)
        assert table.price(union, 100) == 0


def test_a_total_that_others_columns_tell_counts():
    table = Table(whole("day", 9) + whole("sex", 1) + whole("city", 3))
    table.ask("COUNT(*) FROM t WHERE sex = 0", 10)
    table.ask("COUNT(*) FROM t WHERE sex = 1", 10)
    assert table.ask("COUNT(*) FROM t", 20).charged_rho == 0
    table.ask("COUNT(*) FROM t WHERE day < 5", 10)
    assert table.price("COUNT(*) FROM t WHERE day >= 5", 30) == 0


@pytest.mark.parametrize("bound", [1000, 100_000, 1_000_000])
def test_sums_of_large_numbers_count_for_overlapping_sums(bound):
    table = Table(whole("a", 39) + amount("fee", -bound, bound), "rho = 100")
    once = table.ask("SUM(fee) FROM t", bound * 10).charged_rho
    assert table.ask("SUM(fee) FROM t WHERE a < 20", bound * 10).charged_rho < 0.5 * once
    assert table.ask("SUM(fee) FROM t WHERE a >= 20", bound * 10).charged_rho < 0.2 * once


@pytest.mark.parametrize("n_max", [100_000, 100_000_000])
def test_targets_mixed_from_a_thousandth_to_a_million(n_max):
    """As quoted, met, truthful, and free to ask again."""
    table = Table(whole("day", 19) + whole("city", 3), "rho = 1e9", n_max=n_max)
    rng = np.random.default_rng(n_max)
    asked, errors = [], []
    for _ in range(60):
        first, last = sorted(rng.integers(0, 20, 2))
        city = int(rng.integers(0, 6))
        where = f"day BETWEEN {first} AND {last}" + (f" AND city = {city}" if city < 4 else "")
        within = float(f"{10 ** rng.uniform(-3, 6):.5g}")
        sql = f"COUNT(*) FROM t WHERE {where}"
        price = table.price(sql, within)
        answer = table.ask(sql, within)
        assert (answer.met, answer.charged_rho) == (True, price)
        assert answer.half_width <= within
        days, cities = table.atoms["day"], table.atoms["city"]
        inside = (days >= first) & (days <= last) & ((cities == city) | (city >= 4))
        errors.append((answer.value - inside.sum()) / (answer.half_width / 1.959963984540054))
        asked.append((sql, within))
    assert [table.price(sql, within) for sql, within in asked] == [0] * len(asked)
    assert np.abs(errors).max() < 5
    assert table.session.audit().ok
