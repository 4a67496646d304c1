"""GROUP BYs beside their parts and their neighbours: met at the quoted price, and free from then on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from defray.session import Session
from tests.tables import open_session, write_contract, write_people


def wide(folder: Path, ages: int) -> Session:
    """2,000 people, with ages from 0 to ``ages`` and two sexes."""
    if not (folder / "people.parquet").exists():
        write_people(folder, 2_000)
    columns = f"""
[columns.age]
type = "integer"
min = 0
max = {ages}

[columns.sex]
type = "string"
values = ["F", "M"]
"""
    for left in folder.glob("contract.ledger*"):
        left.unlink()
    return open_session(write_contract(folder, "rho = 1e6\nn_max = 100_000", columns=columns))


def all_is_well(session: Session, asked: Sequence[tuple[str, int]]) -> None:
    """Each is met at its quoted price, and all before it are free from then on."""
    for n, (rest, within) in enumerate(asked):
        sql = f"SELECT COUNT(*) FROM people{rest}"
        quote = session.quote(sql, within=within)
        answer = session.ask(sql, within=within)
        assert answer.met, (sql, within)
        assert answer.charged_rho == quote.charged_rho
        for earlier, target in asked[: n + 1]:
            again = session.quote(f"SELECT COUNT(*) FROM people{earlier}", within=target)
            assert again.charged_rho == 0, (earlier, sql)
    assert session.audit().findings == ()


SEQUENCES = {
    "residuals, and some cells themselves, in a view too large to fuse them": (
        120,
        [
            (" GROUP BY age", 60),
            (" WHERE age < 11 GROUP BY age", 30),
            (" WHERE age < 11 GROUP BY sex", 30),
            (" GROUP BY age", 30),
        ],
    ),
    "a few cells of a table of many": (
        300,
        [
            (" WHERE age BETWEEN 10 AND 216 GROUP BY age", 61),
            (" WHERE age BETWEEN 200 AND 208 GROUP BY sex, age", 60),
        ],
    ),
    "a view that grows beyond what a GROUP BY is looked up in": (
        180,
        [
            (" WHERE age < 90", 15),
            (" WHERE age >= 60", 15),
            (" GROUP BY age", 60),
            (" WHERE sex = 'F' AND age < 50", 30),
            (" WHERE sex = 'M' AND age BETWEEN 7 AND 131", 30),
            (" GROUP BY age", 40),
        ],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_group_by_beside_others_is_met_and_stays_free(tmp_path: Path, name: str):
    ages, asked = SEQUENCES[name]
    with wide(tmp_path, ages) as session:
        all_is_well(session, asked)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_group_bys_and_their_parts_are_met_and_stay_free(tmp_path: Path, seed: int):
    chance = random.Random(seed)
    ages = chance.choice([15, 60, 120, 300])
    asked = []
    for _ in range(chance.randint(3, 9)):
        high = chance.randint(1, ages)
        low = chance.randint(0, high)
        where = chance.choice(
            [
                "",
                f" WHERE age < {high}",
                f" WHERE age BETWEEN {low} AND {high}",
                f" WHERE sex = 'F' AND age >= {high}",
                " WHERE sex = 'M'",
            ]
        )
        by = chance.choice(["", " GROUP BY age", " GROUP BY sex", " GROUP BY sex, age"])
        asked.append((where + by, chance.choice([15, 30, 60, 61, 200])))
    with wide(tmp_path, ages) as session:
        all_is_well(session, asked)
