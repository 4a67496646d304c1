"""The tables of a PostgreSQL ledger, who may do what with them, and how they are made.

They are those of :mod:`defray.ledger.schema`, with two differences: what every cell has paid has a column of
its own, ``charges.everywhere``, and ``head`` is one row to be locked; its ``moved`` says where a ledger went
that was copied away.  ``meta`` keeps the version.

Append-only is a matter of rights first: the role of a service may INSERT into ``entries`` and SELECT, no
more.  The triggers hold for the owner too, who could drop them.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Final

from psycopg import sql as compose

from defray.errors import BadInput, LedgerError
from defray.ledger.beside import KEPT_FOR
from defray.ledger.checks import check_terms
from defray.ledger.paid import Memo
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.connections import Connection
from defray.ledger.records import Terms
from defray.ledger.session import SqlTransaction

VERSION: Final = 1

_KINDS: Final = ["open", "epoch", "release", "shadow", "settled", "arrival", "principal", "close"]
_TEXT: Final = 'text COLLATE "C"'
_TABLES: Final = f"""
CREATE TABLE meta(name {_TEXT} PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE head(one boolean PRIMARY KEY DEFAULT true CHECK (one), turn bigint, moved text);
CREATE TABLE entries(
    seq bigint PRIMARY KEY,
    kind {_TEXT} NOT NULL CHECK (kind IN ({", ".join(f"'{kind}'" for kind in _KINDS)})),
    body bytea NOT NULL,
    hash {_TEXT} NOT NULL CHECK (length(hash) = 64));
{
    "".join(
        f"CREATE INDEX {kind}s ON entries(seq) WHERE kind = '{kind}';"
        for kind in ("epoch", "arrival", "release", "principal", "shadow")
    )
}
CREATE TABLE totals(
    purse {_TEXT} PRIMARY KEY,
    quanta bigint NOT NULL CHECK (quanta BETWEEN 0 AND cap),
    cap bigint NOT NULL);
CREATE TABLE charges(
    purse {_TEXT} NOT NULL,
    attributes {_TEXT} NOT NULL,
    number bigint NOT NULL,
    last bigint NOT NULL,
    everywhere bigint CHECK ((everywhere IS NOT NULL) = (attributes = '')),
    quanta bytea CHECK ((quanta IS NOT NULL) = (attributes <> '')),
    PRIMARY KEY (purse, attributes));
CREATE TABLE known(
    key bytea PRIMARY KEY,
    precision text NOT NULL,
    weighted text NOT NULL,
    releases bigint NOT NULL,
    last bigint NOT NULL,
    idx bigint NOT NULL,
    promises text NOT NULL,
    first text NOT NULL,
    asks text NOT NULL);
CREATE TABLE notes(name {_TEXT} PRIMARY KEY, text text NOT NULL);
CREATE TABLE tokens(
    id {_TEXT} PRIMARY KEY,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    principal {_TEXT} NOT NULL,
    scopes text NOT NULL,
    made bigint NOT NULL,
    expires bigint,
    revoked bigint);
CREATE TABLE answered(
    principal {_TEXT} NOT NULL,
    key {_TEXT} NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    request {_TEXT} NOT NULL CHECK (length(request) = 64),
    at bigint NOT NULL,
    document text NOT NULL,
    PRIMARY KEY (principal, key));
CREATE INDEX answered_at ON answered(at);
"""

_REFUSE: Final = f"""
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
    BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;
CREATE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
    DECLARE newest record;
    BEGIN
        SELECT seq, kind INTO newest FROM entries ORDER BY seq DESC LIMIT 1;
        IF NEW.seq <> coalesce(newest.seq, 0) + 1 THEN
            RAISE EXCEPTION 'entries are numbered 1, 2, ...';
        ELSIF newest.kind = 'close' THEN
            RAISE EXCEPTION 'the contract is closed';
        ELSIF (SELECT moved FROM head) IS NOT NULL THEN
            RAISE EXCEPTION 'the ledger was moved';
        END IF;
        RETURN NEW;
    END $$;
CREATE FUNCTION keep_charges() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
    BEGIN
        IF OLD.attributes = ''
            OR (SELECT kind FROM entries ORDER BY seq DESC LIMIT 1) <> 'epoch' THEN
            RAISE EXCEPTION 'what was spent stays spent';
        END IF;
        RETURN OLD;
    END $$;
CREATE FUNCTION keep_answered() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
    BEGIN
        IF OLD.at >= (SELECT max(at) FROM answered) - {KEPT_FOR // timedelta(seconds=1)} THEN
            RAISE EXCEPTION 'a kept answer stays for a week';
        END IF;
        RETURN OLD;
    END $$;
CREATE TRIGGER entries_grow BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION grow();
CREATE TRIGGER charges_remain BEFORE DELETE ON charges FOR EACH ROW EXECUTE FUNCTION keep_charges();
CREATE TRIGGER answered_remain BEFORE DELETE ON answered
    FOR EACH ROW EXECUTE FUNCTION keep_answered();
"""


def _refused(table: str, event: str, why: str, when: str = "true") -> str:
    name = f"{table}_{event.lower()}_refused"
    return (
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({when}) "
        f"EXECUTE FUNCTION refuse('{why}');"
    )


_SPENT: Final = "what was spent stays spent"
_OF_AN_ANALYST: Final = "(OLD.purse LIKE '%/%' AND OLD.purse NOT LIKE '%/%/%')"
_RULES: Final = "".join(
    [
        _refused("entries", "UPDATE", "the log is append-only"),
        _refused("entries", "DELETE", "the log is append-only"),
        "CREATE TRIGGER entries_stay BEFORE TRUNCATE ON entries FOR EACH STATEMENT "
        "EXECUTE FUNCTION refuse('the log is append-only');",
        _refused(
            "totals",
            "UPDATE",
            _SPENT,
            "NEW.cap <> OLD.cap OR NEW.purse <> OLD.purse "
            f"OR (NEW.quanta < OLD.quanta AND NOT {_OF_AN_ANALYST})",
        ),
        _refused("totals", "DELETE", _SPENT),
        _refused(
            "charges",
            "UPDATE",
            _SPENT,
            "NEW.purse <> OLD.purse OR NEW.attributes <> OLD.attributes OR NEW.number <> OLD.number "
            f"OR (NEW.everywhere < OLD.everywhere AND NOT {_OF_AN_ANALYST}) "
            "OR (NEW.attributes <> '' AND NEW.last <= OLD.last)",
        ),
        _refused(
            "tokens",
            "UPDATE",
            "a token is revoked once, and never changed",
            "OLD.revoked IS NOT NULL OR NEW.revoked IS NULL "
            "OR (OLD.id, OLD.hash, OLD.principal, OLD.scopes, OLD.made, OLD.expires) IS DISTINCT FROM "
            "(NEW.id, NEW.hash, NEW.principal, NEW.scopes, NEW.made, NEW.expires)",
        ),
        _refused("tokens", "DELETE", "a token is revoked, and never removed"),
        _refused("answered", "UPDATE", "a kept answer never changes"),
    ]
)

_RIGHTS: Final = (
    "USAGE ON SCHEMA {schema}",
    "SELECT ON ALL TABLES IN SCHEMA {schema}",
    "UPDATE (turn) ON {schema}.head",  # a row can be locked by those who may change a part of it
    "INSERT ON {schema}.entries",
    "INSERT, UPDATE ON {schema}.totals",
    "INSERT, UPDATE, DELETE ON {schema}.charges",
    "INSERT, UPDATE, DELETE ON {schema}.known",
    "INSERT, UPDATE ON {schema}.notes",
    "INSERT, UPDATE (revoked) ON {schema}.tokens",
    "INSERT, DELETE ON {schema}.answered",
)
"""What the role of a service needs, and all that it should have."""


def there(sql: Connection, address: Address) -> bool:
    """Whether there is a ledger in the schema, as this statement's snapshot has it."""
    found = sql.execute(
        "SELECT 1 FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = ? AND relname = 'entries'",
        (address.schema,),
    )
    return found.fetchone() is not None


def make(sql: Connection, address: Address) -> None:
    """Make the empty tables, in a transaction of the caller's."""
    exists = sql.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (address.schema,))
    if exists.fetchone() is None:
        sql.script(f"CREATE SCHEMA {address.schema}")
    sql.script(_TABLES + _REFUSE + _RULES)
    sql.execute("INSERT INTO head DEFAULT VALUES")
    sql.execute("INSERT INTO meta(name, value) VALUES ('version', ?)", (b"%d" % VERSION,))


def alone(sql: Connection, address: Address) -> None:
    """Wait until nobody else makes a ledger in that schema."""
    sql.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (f"defray {address.schema}",)
    )


def begin(sql: Connection, address: Address, terms: Terms) -> None:
    """Make a ledger in a transaction of the caller's: its tables, its secret, its first entry."""
    check_terms(terms)
    make(sql, address)
    sql.execute("INSERT INTO meta(name, value) VALUES ('secret', ?)", (secrets.token_bytes(32),))
    SqlTransaction(sql, str(address), Memo(), terms).start()


def grant(sql: Connection, address: Address, role: str) -> None:
    """Give a role the rights of a service."""
    known = sql.execute("SELECT 1 FROM pg_roles WHERE rolname = ?", (role,)).fetchone()
    if known is None:
        raise BadInput(f"there is no role {role!r:.80}", hint="CREATE ROLE makes one")
    name = compose.Identifier(role).as_string(sql.raw)
    for right in _RIGHTS:
        sql.script(f"GRANT {right.format(schema=address.schema)} TO {name}")


def recognise(sql: Connection, address: Address) -> None:
    """Accept a ledger of this version, on a server that keeps what it commits."""
    row = sql.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
    version = int(row[0]) if row is not None and bytes(row[0]).isdigit() else 0
    if version != VERSION:
        raise LedgerError(
            f"The ledger {address} was made by another Defray (ledger version {version}, this one "
            f"knows {VERSION}).",
            hint="Upgrade Defray; a ledger is never turned back.",
            path=str(address),
        )
    for setting in ("fsync", "full_page_writes"):
        shown = sql.execute(f"SHOW {setting}").fetchone()
        if shown is None or shown[0] != "on":
            raise LedgerError(
                f"The server of the ledger {address} does not keep what it commits: {setting} is off.",
                hint=f"Set {setting} = on in its postgresql.conf.",
                path=str(address),
            )
