"""The table of charges: reading a purse's account from a ledger, and writing what changed of it.

A ledger that is open remembers the newest account of each purse.  Others may have gone on meanwhile: then the
sets that were charged since are read, and the account advances by their difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from defray.core.principals import NOBODY, Principals
from defray.ledger.accounts import Account, Kept, read, spelled, unpaid_in
from defray.ledger.records import Epoch, Purse
from defray.ledger.sql import Sql

if TYPE_CHECKING:
    from defray.support.charges import Added, Charges

_HEADS: Final = (
    "SELECT attributes, last, CASE attributes WHEN '' THEN {} END FROM charges "
    "WHERE purse = ? ORDER BY number, attributes"
)
_UNPAID: Final = "INSERT INTO charges(purse, attributes, number, last, {}) VALUES (?, '', 0, 0, 0)"


@dataclass(slots=True)
class Memo:
    """What an open ledger remembers of committed moments, for all threads.  Nothing in it ever changes, and
    all of it is in the file as well.

    ``epochs`` holds the newest epoch by the hash of its entry, ``unpaid`` the cells of its domain, and
    ``principals`` those after the newest change of them, with the seq and the hash of its entry.
    ``accounts`` hold the newest that were seen, with the seq of their moment and the counter of their data
    version.
    """

    epochs: dict[str, Epoch] = field(default_factory=dict)
    unpaid: tuple[Epoch, Charges] | None = None
    principals: tuple[int, str, Principals] = (0, "", NOBODY)
    accounts: dict[str, tuple[int, int, Account]] = field(default_factory=dict)

    def unpaid_in(self, epoch: Epoch | None) -> Charges:
        if epoch is None:
            return unpaid_in(None)
        known = self.unpaid
        if known is None or known[0] is not epoch:
            known = self.unpaid = epoch, unpaid_in(epoch)
        return known[1]

    def keep(self, accounts: Mapping[str, Account], version: int, seq: int) -> None:
        for purse, account in accounts.items():
            if seq >= self.accounts.get(purse, (0,))[0]:
                self.accounts[purse] = seq, version, account

    def account(self, purse: str, version: int) -> Account:
        """An account of that data version to start from."""
        _, of, account = self.accounts.get(purse, (0, 0, Account()))
        return account if of == version else Account()


def read_account(
    sql: Sql,
    purse: str,
    start: Callable[[], Account],
    unpaid: Callable[[], Charges],
) -> Account:
    """The account of a purse as it is kept, from one of the same data version to ``start`` from.  ValueError,
    TypeError or KeyError where it cannot be read."""
    total = sql.execute("SELECT quanta FROM totals WHERE purse = ?", (purse,)).fetchone()
    if total is None:
        return Account()
    rows = sql.execute(_HEADS.format(sql.everywhere), (purse,)).fetchall()
    if not rows or rows[0][0]:
        raise KeyError(purse)
    spent, common = int(total[0]), int(rows[0][2])
    sets = {read(text): int(last) for text, last, _ in rows[1:]}
    account = Account(spent, common)
    if sets:
        before = start()
        if before.sets == sets and (before.spent, before.everywhere) == (spent, common):
            return before
        account = _advanced(sql, purse, before, replace(account, sets=sets), unpaid)
    if account.dearest > spent:
        raise ValueError("a cell has paid more than was spent")
    return account


def _advanced(
    sql: Sql,
    purse: str,
    before: Account,
    now: Account,
    unpaid: Callable[[], Charges],
) -> Account:
    """``now`` with its cells: those of ``before``, if that is an earlier moment, and what came since."""
    from defray.ledger.runs import cells, unpack

    if before.everywhere > now.common or any(
        last > now.sets.get(columns, -1) for columns, last in before.sets.items()
    ):
        before = Account()
    charges = before.charges(unpaid)
    held = charges.sets()
    added: list[Added] = [((), now.common - before.everywhere)]
    for columns, last in now.sets.items():
        if before.sets.get(columns) == last:
            continue
        (blob,) = sql.execute(
            "SELECT quanta FROM charges WHERE purse = ? AND attributes = ?",
            (purse, spelled(columns)),
        ).fetchone()
        shape = [charges.atoms[i] for i in columns]
        quanta = cells(unpack(blob, math.prod(shape)), shape)
        added.append((columns, quanta - held[columns] if columns in held else quanta))
    return Account(now.spent, 0, charges.plus(added), now.sets)


def write_account(sql: Sql, purse: str, after: Account, seq: int) -> bool:
    """Write what the release ``seq`` changed; whether the purse was there."""
    done = sql.execute("UPDATE totals SET quanta = ? WHERE purse = ?", (after.spent, purse))
    same = sql.execute(
        f"UPDATE charges SET {sql.everywhere} = ? WHERE purse = ? AND attributes = ''",
        (after.everywhere, purse),
    )
    if after.cells is not None:
        from defray.ledger.runs import pack, runs

        quanta = after.cells.sets()
        for number, (columns, last) in enumerate(after.sets.items(), 1):
            if last == seq:
                sql.execute(
                    "INSERT INTO charges(purse, attributes, number, last, quanta) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT(purse, attributes) "
                    "DO UPDATE SET last = excluded.last, quanta = excluded.quanta",
                    (purse, spelled(columns), number, last, pack(runs(quanta[columns]))),
                )
    return done.rowcount == same.rowcount == 1


def start_accounts(sql: Sql, caps: Mapping[Purse, int]) -> None:
    """Nothing was paid yet."""
    sql.executemany("INSERT INTO totals(purse, quanta, cap) VALUES (?, 0, ?)", caps.items())
    sql.executemany(_UNPAID.format(sql.everywhere), ((purse,) for purse in caps))


def ceiling_of(name: str, cap: int) -> int:
    """What an account's total never passes: of a tally more than any contract can move."""
    return cap if name.partition("/")[2].partition("/")[2] in ("", "alone") else 2**62


def start_account(sql: Sql, name: str, cap: int) -> None:
    """Nothing was paid yet from an account that may be new."""
    if sql.execute("SELECT 1 FROM totals WHERE purse = ?", (name,)).fetchone() is None:
        sql.execute("INSERT INTO totals(purse, quanta, cap) VALUES (?, 0, ?)", (name, cap))
        sql.execute(_UNPAID.format(sql.everywhere), (name,))


def account_names(sql: Sql) -> list[str]:
    """Those that have begun: the purses, and analysts' own."""
    return [str(name) for (name,) in sql.execute("SELECT purse FROM totals ORDER BY purse")]


def drop_sets(sql: Sql) -> None:
    """A new data version begins: what was paid on attribute sets is now paid everywhere."""
    sql.execute("DELETE FROM charges WHERE attributes <> ''")


def stored(sql: Sql) -> dict[str, Kept]:
    """The table as it is, for an audit to compare."""
    found: dict[str, Kept] = {}
    for purse, text, number, last, everywhere, quanta in sql.execute(
        f"SELECT purse, attributes, number, last, {sql.everywhere}, quanta FROM charges "
        "ORDER BY purse, number"
    ):
        if not text:
            quanta = everywhere
        else:
            from defray.ledger.runs import unpack
            from defray.support.charges import DENSE

            quanta = unpack(quanta, DENSE)
        found.setdefault(purse, {})[text] = number, last, quanta
    return found
