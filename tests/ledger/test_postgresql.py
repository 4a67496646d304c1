"""What holds of a ledger in PostgreSQL alone: rights, lost connections, settings of the server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from defray.core.principals import Enrolment
from defray.errors import (
    BadInput,
    LedgerCorrupt,
    LedgerError,
    LedgerMismatch,
    LedgerUnavailable,
)
from defray.ledger.audit import audit
from defray.ledger.beside import KeptAnswer
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.connections import Connection
from defray.ledger.postgresql.ledger import PostgresLedger
from tests.ledger.makers import DOMAIN, NOON, by_cell, derive, functional, release, terms, token
from tests.postgresql.proxy import How, Proxy
from tests.postgresql.server import Server, new_schema, new_server, the_server


@pytest.fixture
def address() -> Address:
    return Address(the_server().dsn(), new_schema())


@pytest.fixture
def ledger(address: Address) -> Iterator[PostgresLedger]:
    with PostgresLedger.open(address, terms(), timeout=10) as made:
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        yield made


def put(ledger: PostgresLedger, *releases: Any) -> list[int]:
    with ledger.transaction() as transaction:
        return [transaction.append(one) for one in releases]


def as_service(address: Address) -> Address:
    return Address(the_server().dsn(Server.SERVICE), address.schema)


# -- rights ------------------------------------------------------------------------------------------


@pytest.fixture
def service(ledger: PostgresLedger, address: Address) -> Iterator[PostgresLedger]:
    """The ledger as a service has it."""
    ledger.grant(Server.SERVICE)
    with PostgresLedger.open(as_service(address), terms()) as opened:
        yield opened


def test_the_role_of_a_service_does_all_that_a_service_does(service: PostgresLedger) -> None:
    put(service, release(), by_cell(), functional())
    with service.transaction() as transaction:
        transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
        transaction.issue(token("aa0001"))
        transaction.revoke("aa0001", NOON)
        transaction.keep_answer(KeptAnswer("ana", "k", "0" * 64, NOON, "{}"))
        transaction.open_epoch("q", DOMAIN)
        transaction.append(by_cell(version=2))
    service.remember("n", "t")
    assert audit(service, derive).ok


FORBIDDEN = [
    "UPDATE entries SET body = body WHERE seq = 3",
    "DELETE FROM entries WHERE seq = 3",
    "TRUNCATE entries",
    "INSERT INTO entries SELECT * FROM entries WHERE seq = 3 "
    "ON CONFLICT (seq) DO UPDATE SET body = excluded.body",
    "ALTER TABLE entries DISABLE TRIGGER USER",
    "DROP TRIGGER entries_grow ON entries",
    "DROP TABLE entries",
    "CREATE TABLE more(x int)",
    "CREATE OR REPLACE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$",
    "UPDATE head SET moved = 'moved away'",
    "UPDATE meta SET value = value",
    "UPDATE tokens SET scopes = 'ask'",
    "DELETE FROM tokens",
    "DELETE FROM totals",
    "UPDATE answered SET document = ''",
]
REFUSED = [
    "INSERT INTO entries SELECT seq + 2, kind, body, hash FROM entries WHERE seq = 3",
    "UPDATE totals SET quanta = 0",
    "UPDATE totals SET cap = cap + 1",
    "UPDATE charges SET everywhere = 0",
    "DELETE FROM charges",
]


@pytest.mark.parametrize("statement", FORBIDDEN + REFUSED)
def test_the_role_of_a_service_cannot_change_the_log(
    service: PostgresLedger, address: Address, statement: str
) -> None:
    put(service, release())
    before = list(service.entries()), service.folds()
    options = f"-c search_path={address.schema}"
    with (
        psycopg.connect(as_service(address).dsn, options=options, autocommit=True) as sql,
        pytest.raises(psycopg.Error) as caught,
    ):
        sql.execute(statement.encode())
    rights = (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject)
    refused = (psycopg.errors.RaiseException, psycopg.errors.CheckViolation)
    assert isinstance(caught.value, rights if statement in FORBIDDEN else refused)
    assert (list(service.entries()), service.folds()) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = body WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 2",
        "TRUNCATE entries",
        "UPDATE tokens SET scopes = 'audit'",
        "DELETE FROM tokens",
    ],
)
def test_the_owner_is_reminded_too(
    ledger: PostgresLedger, address: Address, statement: str
) -> None:
    with ledger.transaction() as transaction:
        transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
        transaction.issue(token("aa0001"))
    options = f"-c search_path={address.schema}"
    with (
        psycopg.connect(address.dsn, options=options, autocommit=True) as sql,
        pytest.raises(psycopg.errors.RaiseException),
    ):
        sql.execute(statement.encode())


def test_who_may_not_make_a_ledger_is_told_who_may(address: Address) -> None:
    with pytest.raises(LedgerError, match="may not make one") as caught:
        PostgresLedger.open(as_service(address), terms())
    assert "ledger init --grant" in caught.value.hint
    PostgresLedger.open(address, terms()).close()
    with pytest.raises(LedgerError, match="role") as caught:
        PostgresLedger.open(as_service(address), terms())
    assert "docs/postgresql.md" in caught.value.hint


def test_a_role_that_does_not_exist_is_named(ledger: PostgresLedger) -> None:
    with pytest.raises(BadInput, match="nobody-here"):
        ledger.grant("nobody-here")


# -- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hunter2@localhost:1/x",
        "host=/nowhere password=hunter2 user=me dbname=x",
        "postgresql://me@localhost:1/x?password=hunter2",
        "postgresql://me:hunter2@%zz/x",
        "hunter2",
    ],
)
def test_no_error_says_a_password_or_a_user(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises((LedgerUnavailable, BadInput)) as caught:
        PostgresLedger.open(Address(dsn, "x"), terms(), timeout=1)
    told = f"{caught.value} {caught.value.to_dict()} {caplog.text} {caught.value.__cause__}"
    assert "hunter2" not in told
    assert "me@" not in told
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_is_wrong_with_an_address_is_said(address: Address) -> None:
    with pytest.raises(LedgerError, match="no such database"):
        PostgresLedger.open(Address(f"{address.dsn} dbname=none", "x"), terms())
    with pytest.raises(LedgerError, match="refused the login"):
        PostgresLedger.open(Address(f"{address.dsn} user=none", "x"), terms())
    with pytest.raises(LedgerError, match="There is no ledger"):
        PostgresLedger.read(address)
    for schema in ("Upper", "pg_mine", "a-b", "", "a" * 64, "x; DROP TABLE y"):
        with pytest.raises(BadInput, match="schema"):
            Address(address.dsn, schema)


# -- settings that others made -------------------------------------------------------------------------


def test_what_a_role_sets_for_itself_does_not_matter(address: Address) -> None:
    role = f"r{address.schema}"
    server = the_server()
    server.sql(f"CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE ledgers TO {role}")
    server.sql(f"ALTER ROLE {role} SET synchronous_commit = off")
    server.sql(f"ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'")
    server.sql(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    dsn = f"{server.dsn(role)} target_session_attrs=any"
    with PostgresLedger.open(Address(dsn, address.schema), terms()) as ledger:
        with ledger.transaction() as transaction:
            assert transaction._sql.execute("SHOW synchronous_commit").fetchone() == ("on",)
            assert transaction._sql.execute("SHOW transaction_isolation").fetchone() == (
                "read committed",
            )
            transaction.open_epoch("p", DOMAIN)
        with ledger.view() as view:
            assert view._sql.execute("SHOW transaction_read_only").fetchone() == ("on",)
            assert view._sql.execute("SHOW transaction_isolation").fetchone() == (
                "repeatable read",
            )


def test_a_failed_transaction_does_not_pass_for_a_kept_one(ledger: PostgresLedger) -> None:
    """Its commit would be a rollback that is not told as an error."""

    def fail() -> None:
        with ledger.transaction() as transaction:
            transaction.append(release())
            with pytest.raises(psycopg.Error):
                transaction._sql.execute("SELECT nothing")
            transaction._accounts.clear()

    with pytest.raises(LedgerCorrupt, match="to be kept"):
        fail()
    with ledger.view() as view:
        assert view.seq == 2


# -- news only -----------------------------------------------------------------------------------------


def test_a_process_catches_up_by_reading_news_only(
    ledger: PostgresLedger, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    execute = Connection.execute

    def watched(self: Connection, statement: str, *rest: Any) -> Any:
        read.append(statement)
        return execute(self, statement, *rest)

    put(ledger, by_cell(), functional())
    with PostgresLedger.open(address, terms()) as other:
        with other.view() as view:
            view.charges("answer")
            view.epoch  # noqa: B018
        put(ledger, by_cell())
        monkeypatch.setattr(Connection, "execute", watched)
        for blobs in (1, 0):
            read.clear()
            with other.view() as view:
                paid = view.charges("answer")
                assert view.epoch is not None
            assert sum(s.startswith("SELECT quanta FROM charges") for s in read) == blobs
            assert not any("SELECT body" in s for s in read)
        monkeypatch.undo()
        with ledger.view() as view:
            assert paid.worst() == view.charges("answer").worst()


# -- lines that break at a commit ------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy(the_server().folder)
    yield made
    made.close()


@pytest.fixture
def far(ledger: PostgresLedger, address: Address, proxy: Proxy) -> Iterator[PostgresLedger]:
    """The ledger over a line that can break."""
    dsn = f"host={proxy.folder} dbname=ledgers user={Server.OWNER}"
    with PostgresLedger.open(Address(dsn, address.schema), terms(), timeout=10) as opened:
        yield opened


@pytest.mark.parametrize("how", ["after", "hanging"])
def test_a_commit_that_was_made_is_found(
    far: PostgresLedger, ledger: PostgresLedger, proxy: Proxy, how: How
) -> None:
    """Also where the server does not know yet that its client is gone, and makes it later."""
    proxy.breaks = how
    assert put(far, release()) == [3]
    assert proxy.broken == 1
    assert put(far, release(), release()) == [4, 5]
    report = audit(ledger, derive)
    assert (report.ok, report.releases) == (True, 3)


def test_a_commit_that_was_not_made_is_told(
    far: PostgresLedger, ledger: PostgresLedger, proxy: Proxy
) -> None:
    proxy.breaks = "before"
    with pytest.raises(LedgerUnavailable, match="nothing was kept"):
        put(far, release())
    assert put(far, release()) == [3]
    report = audit(ledger, derive)
    assert (report.ok, report.releases) == (True, 1)


def test_tokens_and_answers_are_found_as_well(
    far: PostgresLedger, ledger: PostgresLedger, proxy: Proxy
) -> None:
    with far.transaction() as transaction:
        transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
    steps = [
        lambda transaction: transaction.issue(token("aa0001")),
        lambda transaction: transaction.revoke("aa0001", NOON),
        lambda transaction: transaction.keep_answer(KeptAnswer("ana", "k", "0" * 64, NOON, "{}")),
    ]
    for step in steps:
        proxy.breaks = "before"
        with pytest.raises(LedgerUnavailable), far.transaction() as transaction:
            step(transaction)
        proxy.breaks = "after"
        with far.transaction() as transaction:
            step(transaction)
    with ledger.view() as view:
        assert view.token(token("aa0001").hash).revoked == NOON
        assert view.answered("ana", "k") == ("0" * 64, "{}")
    assert proxy.broken == 6


def test_a_commit_that_cannot_be_looked_up_is_not_called_either_way(
    far: PostgresLedger, ledger: PostgresLedger, proxy: Proxy
) -> None:
    far._connections.timeout = 0.5
    proxy.breaks = "hanging"
    with pytest.raises(LedgerUnavailable, match="while it kept") as caught:
        put(far, release())
    assert "Ask again" in caught.value.hint
    far._connections.timeout = 10.0
    assert put(far, release()) == [4]
    assert audit(ledger, derive).releases == 2


# -- servers that stop -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> Server:
    """A server that tests may stop."""
    return new_server()


@pytest.fixture
def mortal(own: Server) -> Iterator[PostgresLedger]:
    with PostgresLedger.open(Address(own.dsn(), new_schema()), terms(), timeout=15) as made:
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        yield made


def restart(server: Server, how: str) -> None:
    server.stop(how)
    server.start()


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_restart_between_asks_goes_unnoticed(
    own: Server, mortal: PostgresLedger, how: str
) -> None:
    with mortal.view() as one, mortal.view() as two:
        assert one.seq == two.seq == 2
    restart(own, how)
    assert put(mortal, release()) == [3]
    restart(own, how)
    with mortal.view() as view:
        assert view.seq == 3
    assert audit(mortal, derive).ok


def test_a_restart_inside_a_transaction_keeps_nothing(own: Server, mortal: PostgresLedger) -> None:

    def lose(late: bool) -> None:
        with mortal.transaction() as transaction:
            transaction.append(release())
            restart(own, "immediate")
            if not late:
                transaction.append(release())

    for late in (False, True):
        with pytest.raises(LedgerUnavailable):
            lose(late)
    assert put(mortal, release()) == [3]
    assert audit(mortal, derive).releases == 1


def test_a_server_that_is_down_is_said_to_be(own: Server, mortal: PostgresLedger) -> None:
    own.stop()
    try:
        mortal._connections.timeout = 0.5
        with pytest.raises(LedgerUnavailable, match="cannot be reached"), mortal.view():
            pass
        with pytest.raises(LedgerUnavailable, match="cannot be reached"), mortal.transaction():
            pass
    finally:
        own.start()
    mortal._connections.timeout = 15
    assert put(mortal, release()) == [3]


def test_a_server_that_does_not_keep_what_it_commits_is_refused(
    own: Server, mortal: PostgresLedger
) -> None:
    own.sql("ALTER SYSTEM SET fsync = off")
    restart(own, "fast")
    try:
        with pytest.raises(LedgerError, match="fsync is off"):
            PostgresLedger.open(mortal._address, terms())
    finally:
        own.sql("ALTER SYSTEM RESET fsync")
        restart(own, "fast")


def test_an_older_database_that_comes_back_is_refused(
    own: Server, mortal: PostgresLedger, tmp_path: Path
) -> None:
    """By the process that saw the newer one, and by every other that has its witness."""
    witness = tmp_path / "witness"
    data, copy = own.folder / "data", own.folder / "copy"
    with PostgresLedger.open(mortal._address, terms(), witness=witness) as seeing:
        own.stop()
        shutil.copytree(data, copy, copy_function=copied)
        chowned(copy, data)
        own.start()
        assert put(seeing, release()) == [3]
        own.stop()
        shutil.rmtree(data)
        copy.rename(data)
        own.start()
        for use in (seeing.view, seeing.transaction):
            with pytest.raises(LedgerMismatch, match="saw its entry 3"), use():
                pass
    with pytest.raises(LedgerMismatch, match="ends at entry 2"):
        PostgresLedger.open(mortal._address, terms(), witness=witness)


def copied(source: str, target: str) -> None:
    shutil.copy2(source, target)


def chowned(copy: Path, like: Path) -> None:
    owner = like.stat()
    for path in (copy, *copy.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


# -- forks -------------------------------------------------------------------------------------------------


def test_a_fork_has_connections_of_its_own(ledger: PostgresLedger) -> None:
    put(ledger, release())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if put(ledger, release()) == [4] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert put(ledger, release()) == [5]
    assert audit(ledger, derive).ok
