"""What written asks need from scratch: the closed form, and the product's own prices."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.config.reader import read_contract
from defray.errors import BadInput, QueryError, TargetError
from defray.simulate.generate import read_spec
from defray.simulate.optimum import feasible_cost
from defray.simulate.pricing import Prices, least_rho, residuals
from tests.tables import open_session, write_contract, write_people

TOP = "rho = 2\nxi = 0.1\nm_floor = 50\nn_max = 20_000"

EXACT = [
    ("SELECT COUNT(*) FROM people", 50, None),
    ("SELECT COUNT(*) FROM people WHERE age >= 40 ERROR WITHIN 7 AT CONFIDENCE 99%", None, None),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 20, "90%"),
    ("SELECT SUM(income) FROM people WHERE sex = 'F'", 2_000_000, None),
    (
        "SELECT COUNT(*) AS n, SUM(income) AS s FROM people ERROR WITHIN 50 FOR n, 4e6 FOR s",
        None,
        None,
    ),
    ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n LIMIT 1", 20, None),
]
RANGED = [
    ("SELECT COUNT(*) FROM people WHERE sex = 'F'", "5%", None),
    ("SELECT AVG(income) FROM people", 2000, None),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("priced")
    write_people(folder, 2000)
    write_contract(folder, TOP)
    return folder


@pytest.fixture(scope="module")
def prices(folder: Path) -> Prices:
    return Prices(read_contract(folder / "contract.toml"))


@given(st.floats(0.01, 1e6), st.floats(0.02, 0.999))
def test_the_closed_form(within: float, confidence: float) -> None:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    assert least_rho(within, confidence) == pytest.approx(z**2 / (2 * within**2), rel=1e-9)
    assert least_rho(repr(within), confidence) == least_rho(within, confidence)


def test_written_accuracies_mean_what_they_mean_elsewhere() -> None:
    assert least_rho(" 50 ", "95%") == least_rho(50, 0.95) == least_rho(50.0, 95) == least_rho(50)
    assert least_rho("1/2") == least_rho(0.5)


@pytest.mark.parametrize(
    ("within", "confidence"),
    [
        (0, None), (-1, None), ("nan", None), (math.nan, None), (math.inf, None), ("1e400", None),
        (1e-70, None), ("", None), ("x", None), ("5%", None), ("0%", None),
        pytest.param(10**5000, None, id="huge"),
        (5, 0), (5, 1), (5, "x"), (5, "0%"), (5, "100%"), (5, math.nan),
    ],
)  # fmt: skip
def test_no_accuracy(within: object, confidence: object) -> None:
    with pytest.raises(TargetError) as error:
        least_rho(within, confidence)
    assert error.value.hint


@pytest.mark.parametrize(("sql", "within", "confidence"), [*EXACT, *RANGED])
def test_the_price_is_the_quote_of_an_empty_ledger(
    folder: Path, prices: Prices, sql: str, within: object, confidence: object, tmp_path: Path
) -> None:
    text = (folder / "contract.toml").read_text()
    (tmp_path / "contract.toml").write_text(
        text.replace("people.parquet", str(folder / "people.parquet")).replace(
            "[source]", 'support = "exact"\n\n[source]', 1
        )
    )
    found = prices.of(sql, within, confidence)
    with open_session(tmp_path / "contract.toml") as session:
        quoted = session.quote(sql, within=within, confidence=confidence)
    assert (found.low, found.high, found.exact) == (
        quoted.low_rho,
        quoted.high_rho,
        quoted.exact,
    )
    assert found.exact == ((sql, within, confidence) in EXACT)


def test_neither_data_nor_ledger_is_there(tmp_path: Path) -> None:
    prices = Prices(read_contract(write_contract(tmp_path, TOP)))
    prices.of(*EXACT[0])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["contract.toml"]


def test_a_question_is_the_same_in_any_spelling(prices: Prices) -> None:
    spellings = [
        "SELECT COUNT(*) FROM people WHERE age >= 40",
        "select count(1) as n from people where not age < 40 error within 5",
        "SELECT COUNT(*) FROM people WHERE age BETWEEN 40 AND 120",
    ]
    others = [
        "SELECT COUNT(*) FROM people WHERE age >= 41",
        "SELECT COUNT(sex) FROM people WHERE age >= 40",
        "SELECT SUM(income) FROM people WHERE age >= 40",
        "SELECT AVG(income) FROM people WHERE age >= 40",
        "SELECT sex, COUNT(*) FROM people WHERE age >= 40 GROUP BY sex",
        "SELECT COUNT(*), SUM(income) FROM people WHERE age >= 40",
    ]
    assert len({prices.question(sql)[0] for sql in spellings}) == 1
    descriptors = {prices.question(sql)[0] for sql in (spellings[0], *others)}
    assert len(descriptors) == 1 + len(others)
    assert prices.question(spellings[0])[1] == spellings[0]


def test_order_and_names_are_no_part_of_a_question(prices: Prices) -> None:
    one = prices.question("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n LIMIT 3")
    other = prices.question("SELECT COUNT(*) AS c, sex FROM people GROUP BY sex")
    assert one[0] == other[0]
    swapped = [
        prices.question(f"SELECT {a}, {b} FROM people")[0]
        for a, b in (("COUNT(*)", "SUM(income)"), ("SUM(income)", "COUNT(*)"))
    ]
    assert swapped[0] == swapped[1]


def test_what_is_refused(prices: Prices) -> None:
    with pytest.raises(QueryError):
        prices.of("SELECT MAX(age) FROM people", 5)
    with pytest.raises(TargetError):
        prices.of("SELECT COUNT(*) FROM people")
    with pytest.raises(BadInput, match="free"):
        prices.of("SELECT COUNT(*) FROM people WHERE age > 5 AND age < 3", 5)


@given(st.integers(1, 200), st.integers(0, 1000), st.integers(1, 30))
def test_residuals_add_up_to_what_is_enough(n: int, seed: int, distinct: int) -> None:
    workload = read_spec(f"zipf:n={n},distinct={distinct}")(seed)
    left = residuals(workload)
    assert (left >= 0).all()
    assert left.sum() == pytest.approx(feasible_cost(workload), rel=1e-12)
    first = np.unique(workload.keys, return_index=True)[1]
    assert (left[first] == workload.demands[first]).all()
