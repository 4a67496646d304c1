"""A ledger of an older version opens, agrees with its log and goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from defray.errors import LedgerCorrupt, LedgerError
from defray.ledger.schema import STEPS, version_of
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.older import turned_back
from tests.tables import open_session, write_contract, write_people

TOP = "rho = 100\nm_floor = 10\nxi = 0.01"
SQL = "SELECT COUNT(*) FROM people WHERE age >= 40"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """Two data versions, several asks for the same numbers, an average and a percentage; all of regions,
    which is all that older ledgers held."""
    write_people(tmp_path, 2000)
    path = write_contract(tmp_path, f'{TOP}\nsupport = "exact"')
    for rows in (2000, 2001):
        write_people(tmp_path, rows)
        with open_session(path) as session:
            session.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex", within=30)
            for within in (30, 20, "10%", "5%", 10):
                session.ask(SQL, within=within)
            session.ask("SELECT AVG(income) FROM people", within="5%")
    return path


@pytest.mark.parametrize("version", range(1, len(STEPS)))
def test_an_older_ledger_opens_audits_clean_and_goes_on(contract: Path, version: int):
    path = contract.with_name("contract.ledger")
    with SqliteLedger.read(path) as ledger:
        before = ledger.folds()
    turned_back(path, version)
    with pytest.raises(LedgerError, match="older Defray"):
        SqliteLedger.read(path)
    with open_session(contract) as session:
        assert session.audit().ok
        assert session._engine.ledger.folds() == before
        assert session.ask(SQL, within=10).charged_rho == 0
        quote = session.quote(SQL, within=3, validity="anytime")
        answer = session.ask(SQL, within=3, validity="anytime")
        assert 0 < quote.charged_rho == answer.charged_rho
        assert answer.asks_so_far >= 4
        session.ask(SQL, within=3, validity="confirm")
        assert session.audit().ok
    with open_session(write_contract(contract.parent, TOP)) as session:
        with session._engine.ledger.view() as view:
            charges = view.charges("answer")
            assert charges.sets() == {} and charges.everywhere == view.spent("answer")
        session.ask("SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 30", within=10)
        assert session.audit().ok
    with closing(sqlite3.connect(path)) as sql:
        assert version_of(sql) == len(STEPS)


@pytest.mark.parametrize("version", range(1, len(STEPS)))
def test_what_was_tampered_with_before_is_still_found(contract: Path, version: int):
    path = contract.with_name("contract.ledger")
    turned_back(path, version)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("UPDATE known SET weighted = '1/3' WHERE releases > 2")
        sql.commit()
    with open_session(contract) as session:
        assert not session.audit().ok


def test_a_log_that_cannot_be_read_is_not_upgraded(contract: Path):
    path = contract.with_name("contract.ledger")
    turned_back(path, 1)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("DROP TRIGGER entries_stay")
        sql.execute("UPDATE entries SET body = x'7b7d' WHERE seq = (SELECT max(seq) FROM entries)")
        sql.commit()
    with pytest.raises(LedgerCorrupt, match="cannot be upgraded"):
        open_session(contract)
    with closing(sqlite3.connect(path)) as sql:
        assert version_of(sql) == 1
        assert [row[1] for row in sql.execute("PRAGMA table_info(known)")][-1] == "promises"
