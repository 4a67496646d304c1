"""A ledger is moved between a file and a database, whole, and is never in use at both places."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from defray.core.principals import Enrolment
from defray.errors import LedgerCorrupt, LedgerError, LedgerMismatch
from defray.ledger.audit import audit
from defray.ledger.beside import KeptAnswer
from defray.ledger.creation import fresh_file
from defray.ledger.moved import Mark
from defray.ledger.moving import Movable, move
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.ledger import PostgresLedger
from defray.ledger.postgresql.writing import arriving
from defray.ledger.sql import Sql
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger
from tests.ledger.makers import DOMAIN, NOON, by_cell, derive, functional, release, terms, token
from tests.postgresql.server import new_schema, the_server

Arriving = Callable[[], AbstractContextManager[Sql]]


class InFile:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "people.ledger"
        self.name = str(self.path)

    def open(self, **options: Any) -> Movable:
        return SqliteLedger.open(self.path, terms(), **options)

    def arriving(self) -> AbstractContextManager[Sql]:
        return fresh_file(self.path)

    def arrived(self) -> Ledger | None:
        return SqliteLedger.read(self.path) if self.path.exists() else None


class InSchema:
    def __init__(self, folder: Path) -> None:
        self.address = Address(the_server().dsn(), new_schema())
        self.name = str(self.address)

    def open(self, **options: Any) -> Movable:
        return PostgresLedger.open(self.address, terms(), **options)

    def arriving(self) -> AbstractContextManager[Sql]:
        return arriving(self.address)

    def arrived(self) -> Ledger | None:
        there = PostgresLedger.exists(self.address)
        return PostgresLedger.read(self.address) if there else None


KINDS = {"file": InFile, "schema": InSchema}


@pytest.fixture(params=["file-schema", "schema-file", "file-file", "schema-schema"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    made = []
    for kind in request.param.split("-"):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(KINDS[kind](folder))
    return made[0], made[1]


@pytest.fixture
def source(places: tuple[Any, Any]) -> Iterator[Movable]:
    """A ledger with all there is in it."""
    ledger = places[0].open()
    with ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
        for one in (release(), by_cell(), functional(), release(sigmas=(9.0, None))):
            transaction.append(one)
        transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
        transaction.issue(token("aa0001"))
        transaction.issue(token("aa0002", days=3))
        transaction.revoke("aa0001", NOON)
        transaction.keep_answer(KeptAnswer("ana", "k", "0" * 64, NOON, '{"ü": 1}'))
    ledger.remember("note", "text")
    yield ledger
    ledger.close()


def moving(source: Movable, target: Any, arriving: Arriving | None = None) -> int:
    return move(source, target.name, arriving or target.arriving, target.arrived)


def contents(ledger: Any) -> Any:
    with ledger.view() as view:
        beside = view.tokens(), view.answered("ana", "k"), view.principals(), view.head
        paid = view.charges("answer").paid((0, 1)).tolist()
    log = list(ledger.entries())
    return beside, paid, log, ledger.folds(), ledger.secret, ledger.terms, ledger.remembered("note")


def test_all_of_it_arrives_and_goes_on(source: Movable, places: tuple[Any, Any]) -> None:
    before = contents(source)
    assert moving(source, places[1]) == len(before[2])
    with closing(places[1].open()) as moved:
        assert contents(moved) == before
        with moved.transaction() as transaction:
            transaction.append(by_cell())
        assert audit(moved, derive).ok


def test_what_was_left_is_not_used_again(
    source: Movable, places: tuple[Any, Any], tmp_path: Path
) -> None:
    """Not by those who have it open, nor by those who open it, nor by another move."""
    before = contents(source)
    moving(source, places[1])
    uses: list[Callable[[], object]] = [
        lambda: source.transaction().__enter__(),
        lambda: source.remember("a", "b"),
        lambda: places[0].open(),
        lambda: moving(source, places[1]),
        lambda: move(source, "elsewhere", places[1].arriving, places[1].arrived),
    ]
    for use in uses:
        with pytest.raises(LedgerMismatch, match="was moved to") as refused:
            use()
        assert refused.value.context["moved_to"] == places[1].name
    assert contents(source) == before  # it can be read still
    backup = tmp_path / "backup"
    with suppress(LedgerMismatch):  # where a copy would not bear the mark, none is made
        source.backup(backup)
        with pytest.raises(LedgerMismatch, match="was moved to"):
            SqliteLedger.open(backup, terms())
    assert backup.exists() == isinstance(places[0], InFile)
    assert source.mark() == Mark(places[1].name, True)


class Stopped(Exception):
    """Stands for the end of the process."""


def test_stopped_before_the_copy_is_committed_it_is_made_again(
    source: Movable, places: tuple[Any, Any]
) -> None:
    @contextmanager
    def cut() -> Iterator[Sql]:
        with places[1].arriving() as sql:
            yield sql
            raise Stopped

    with pytest.raises(Stopped):
        moving(source, places[1], cut)
    assert source.mark() == Mark(places[1].name, False)
    for use in (source.transaction().__enter__, places[0].open):
        with pytest.raises(LedgerMismatch, match="on its way") as refused:
            use()
        assert "ledger copy" in refused.value.hint
    with pytest.raises(LedgerMismatch, match="on its way"):
        move(source, "elsewhere", places[1].arriving, places[1].arrived)
    assert places[1].arrived() is None
    before = contents(source)
    with closing(places[0].open(leaving=True)) as again:
        moving(again, places[1])
    with closing(places[1].open()) as moved:
        assert contents(moved) == before


def test_stopped_after_the_copy_is_committed_it_is_finished(
    source: Movable, places: tuple[Any, Any]
) -> None:
    """Also where the new one went on meanwhile."""

    @contextmanager
    def cut() -> Iterator[Sql]:
        with places[1].arriving() as sql:
            yield sql
        raise Stopped

    with pytest.raises(Stopped):
        moving(source, places[1], cut)
    with closing(places[1].open()) as moved, moved.transaction() as transaction:
        seq = transaction.append(release())
    moving(source, places[1])
    assert source.mark() == Mark(places[1].name, True)
    with closing(places[1].open()) as moved, moved.view() as view:
        assert view.seq == seq


def test_stopped_while_it_copies_nothing_has_happened(
    source: Movable, places: tuple[Any, Any]
) -> None:
    class Cut:
        def __init__(self, sql: Sql) -> None:
            self.sql, self.everywhere, self.left = sql, sql.everywhere, 3

        def execute(self, *words: Any) -> Any:
            return self.sql.execute(*words)

        def executemany(self, *words: Any) -> None:
            self.left -= 1
            if not self.left:
                raise Stopped
            self.sql.executemany(*words)

    @contextmanager
    def cut() -> Iterator[Sql]:
        with places[1].arriving() as sql:
            yield Cut(sql)

    with pytest.raises(Stopped):
        moving(source, places[1], cut)
    assert source.mark() is None
    assert places[1].arrived() is None
    with source.transaction() as transaction:
        transaction.append(release())
    moving(source, places[1])


def test_nothing_is_overwritten(source: Movable, places: tuple[Any, Any]) -> None:
    places[1].open().close()
    with pytest.raises(LedgerError, match="never overwrites"):
        moving(source, places[1])
    assert source.mark() is None


def test_another_ledger_at_the_target_is_not_taken_for_the_copy(
    source: Movable, places: tuple[Any, Any]
) -> None:
    with source.leaving(Mark(places[1].name, False)):
        pass
    places[1].open().close()
    with pytest.raises(LedgerMismatch, match="another one"):
        moving(source, places[1])


def test_a_witness_goes_along(source: Movable, places: tuple[Any, Any], tmp_path: Path) -> None:
    """The chain is the same, so what saw the old ledger knows the new one."""
    witness = tmp_path / "witness"
    source.close()
    with closing(places[0].open(witness=witness)) as opened:
        with opened.transaction() as transaction:
            transaction.append(release())
        moving(opened, places[1])
    with closing(places[1].open(witness=witness)) as moved, moved.transaction() as transaction:
        transaction.append(release())


def test_a_broken_chain_is_not_copied(tmp_path: Path) -> None:
    place, target = InFile(tmp_path), InSchema(tmp_path)
    with closing(place.open()) as ledger, ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
        transaction.append(release())
    with closing(sqlite3.connect(place.path)) as sql:
        sql.execute("DROP TRIGGER entries_stay")
        sql.execute("UPDATE entries SET body = CAST(body || ' ' AS BLOB) WHERE seq = 3")
        sql.commit()
    with closing(place.open()) as ledger:
        with pytest.raises(LedgerCorrupt, match="broken at entry 3"):
            moving(ledger, target)
        assert ledger.mark() is None
    assert target.arrived() is None


def test_an_older_program_cannot_go_on_with_a_file_that_was_left(tmp_path: Path) -> None:
    """It does not know the mark; the database refuses it."""
    place = InFile(tmp_path)
    with closing(place.open()) as ledger:
        moving(ledger, InSchema(tmp_path))
    with closing(sqlite3.connect(place.path)) as sql:
        for statement in (
            "INSERT INTO entries SELECT 2, kind, body, hash FROM entries",
            "INSERT INTO tokens(id, hash, principal, scopes, made) VALUES ('a', zeroblob(32), '', '', 0)",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="was moved"):
                sql.execute(statement)
