"""Columns to charge by: what cells have paid is told apart along them, also where the domain is too large for
the dearest cell to be known exactly."""

from __future__ import annotations

from pathlib import Path

from tests.tables import open_session, write_contract, write_people

COLUMNS = """
[columns.id]
type = "integer"
min = 0
max = 9999

[columns.person]
type = "integer"
min = 0
max = 3333

[columns.sex]
type = "string"
values = ["F", "M"]
"""

BY_SEX = 'rho = 0.5\ncharge_by = ["sex"]'

ASKED = (
    "SELECT COUNT(*) FROM people WHERE sex = 'F' AND id < 500",
    "SELECT COUNT(*) FROM people WHERE sex = 'M' AND person < 500",
)


def spent(folder: Path, top: str) -> tuple[float, float]:
    """What the dearest cell has paid after both questions, and what one of them costs."""
    folder.mkdir(exist_ok=True)
    write_people(folder)
    with open_session(write_contract(folder, top, columns=COLUMNS)) as session:
        charged = {session.ask(sql, within=50).charged_rho for sql in ASKED}
        assert session.audit().ok
        assert len(charged) == 1
        return session.balance()["spent_rho"], charged.pop()


def test_disjoint_regions_of_columns_too_large_to_be_joined_do_not_compete(tmp_path):
    bound, price = spent(tmp_path / "bound", "rho = 0.5")
    exact, same = spent(tmp_path / "exact", BY_SEX)
    assert price == same
    assert exact == price  # each person paid for one of the two
    assert bound == 2 * price  # safe: someone of no known sex might have paid for both


def test_declaring_them_is_a_new_data_version_and_nothing_is_forgotten(tmp_path):
    bound, price = spent(tmp_path, "rho = 0.5")
    contract = write_contract(tmp_path, BY_SEX, columns=COLUMNS)
    with open_session(contract) as session:
        assert session.balance()["spent_rho"] == bound
        again = session.ask(ASKED[0], within=50)
        assert (again.data_version, again.charged_rho) == (2, price)
        assert session.balance()["spent_rho"] == bound + price
        assert session.audit().ok
    with open_session(contract) as session:  # read back from the file
        other = session.ask(ASKED[1], within=50)
        assert (other.data_version, other.charged_rho) == (2, price)
        assert session.balance()["spent_rho"] == bound + price
        assert session.audit().ok
