"""A process that uses a ledger: ``python -m tests.ledger.worker KIND ADDRESS COMMAND ...``.

Commands write one line for each thing that is done, after it is done.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

from defray.core.amounts import QUANTA
from defray.core.principals import Enrolment
from defray.errors import LedgerBusy, LedgerError
from defray.ledger.beside import KeptAnswer
from defray.ledger.records import Release
from defray.ledger.store import Ledger
from tests.contract.ledgers import DURABLE
from tests.ledger.makers import DOMAIN, NOON, REGIONS, by_cell, release, spend, terms

CHARGE = QUANTA // 2
THIRD = Fraction(1, 3)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def contend(ledger: Ledger, name: str, count: int, charge: int = CHARGE) -> list[str]:
    """``count`` threads each buy another question if it still fits; what became of each."""
    return at_one_moment(ledger, [spend(charge, weights=f"{name}-{i}") for i in range(count)])


def contend_by_cell(ledger: Ledger, count: int, charge: int = CHARGE) -> list[str]:
    """The same, of two ages in turn: each of them pays for its own."""
    bought = []
    for i in range(count):
        region = REGIONS.to_json(REGIONS.where(0, ((i % 2, i % 2 + 1),)))
        weights = {"kind": "region", "region": region, "group": []}
        bought.append(spend(charge, weights=weights, cells=True))
    return at_one_moment(ledger, bought)


def at_one_moment(ledger: Ledger, releases: Sequence[Release]) -> list[str]:
    outcomes = [""] * len(releases)
    barrier = threading.Barrier(len(releases))

    def one(i: int, release: Release) -> None:
        barrier.wait()
        with ledger.transaction() as transaction:
            charges = transaction.charges("answer")
            if charges.fits(release.pays, ledger.terms.caps["answer"]):
                outcomes[i] = f"granted {transaction.append(release)}"
            else:
                outcomes[i] = "refused"

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(releases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def run_contend(open_: Callable[[], Ledger], count: str, how: str = "everywhere") -> None:
    ledger = open_()
    say("ready")
    sys.stdin.readline()
    if how == "by-cell":
        outcomes = contend_by_cell(ledger, int(count))
    else:
        outcomes = contend(ledger, str(os.getpid()), int(count))
    for outcome in outcomes:
        say(outcome)
    ledger.close()


def run_enrol(open_: Callable[[], Ledger], count: str) -> None:
    """So many threads each add an analyst with a third of the contract, if it still fits."""
    ledger = open_()
    say("ready")
    sys.stdin.readline()

    def one(i: int) -> str:
        with ledger.transaction() as transaction:
            if transaction.principals().reserve < THIRD:
                return "refused"
            name = f"p{os.getpid()}.{i}"
            return f"granted {transaction.enrol(Enrolment('add', name, 'analyst', THIRD))}"

    for outcome in in_threads(one, int(count)):
        say(outcome)
    ledger.close()


def run_answer(open_: Callable[[], Ledger], count: str) -> None:
    """So many threads each ask the same under one key: who comes first pays, all others get that answer."""
    ledger = open_()
    say("ready")
    sys.stdin.readline()

    def one(i: int) -> str:
        with ledger.transaction() as transaction:
            kept = transaction.answered("ana", "key")
            if kept is not None:
                return f"again {kept[1]}"
            seq = transaction.append(release(sigmas=(20.0,)))
            document = f"{os.getpid()}.{i}"
            transaction.keep_answer(KeptAnswer("ana", "key", "0" * 64, NOON, document))
            return f"paid {document} {seq}"

    for outcome in in_threads(one, int(count)):
        say(outcome)
    ledger.close()


def in_threads(work: Callable[[int], str], count: int) -> list[str]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def run_create(open_: Callable[[], Ledger]) -> None:
    """Open at a signal, with others; the secret tells whether all have the same ledger."""
    say("ready")
    sys.stdin.readline()
    ledger = open_()
    say(ledger.secret.hex())
    ledger.close()


def run_spend(open_: Callable[[], Ledger], point: str, after: str) -> None:
    """Append small releases for ever, every second by cell, reporting each.  At number ``after``: ``before``
    dies before the commit, ``after`` between commit and report, ``timer`` never (somebody else kills)."""
    ledger = open_()
    say("ready")
    number = 0
    while True:
        number += 1
        bought = release(sigmas=(2e4, None, 3e4), weights=f"w{number % 50}", ask=str(os.getpid()))
        if number % 2 == 0:
            bought = by_cell(2e4, ages=((number % 10, number % 10 + 1),), ask=str(os.getpid()))
        with ledger.transaction() as transaction:
            seq = transaction.append(bought)
            if point == "before" and number == int(after):
                say("dying", seq)
                die()
        if point == "after" and number == int(after):
            say("committed", seq)
            die()
        say("done", seq)


def run_endure(open_: Callable[[], Ledger]) -> None:
    """Append small releases for ever, whatever becomes of the server, and say of each whether it was kept."""
    ledger = open_()
    say("ready")
    number = 0
    while True:
        number += 1
        ask = f"{os.getpid()}-{number}"
        bought = release(sigmas=(2e4, None, 3e4), weights=f"w{number % 50}", ask=ask)
        try:
            with ledger.transaction() as transaction:
                seq = transaction.append(bought)
        except LedgerBusy:
            say("lost", ask)
        else:
            say("kept", ask, seq)


def run_born(open_: Callable[[], Ledger], event: str) -> None:
    """Open, and die at the given number of the interpreter's audit events on files and databases."""
    left = int(event)

    def hook(name: str, _: tuple[object, ...]) -> None:
        nonlocal left
        if name in {"open", "os.link", "os.remove", "sqlite3.connect", "sqlite3.connect/handle"}:
            left -= 1
            if left == 0:
                die()

    sys.addaudithook(hook)
    ledger = open_()
    with ledger.transaction() as transaction:
        if transaction.epoch is None:
            transaction.open_epoch("print", DOMAIN)
    ledger.close()
    say("survived")


def run_fill(open_: Callable[[], Ledger]) -> None:
    """Append until it fails; say how, and how many were kept."""
    ledger = open_()
    with ledger.transaction() as transaction:
        transaction.open_epoch("print", DOMAIN)
    kept = 0
    try:
        while True:
            with ledger.transaction() as transaction:
                transaction.append(release(sigmas=[2e5] * 40, weights="w"))
            kept += 1
    except LedgerError as error:
        say(type(error).__name__, error.context.get("reason"))
    with ledger.view() as view:
        say(kept, view.seq)


def main() -> None:
    kind, address, command, *rest = sys.argv[1:]

    def open_() -> Ledger:
        return DURABLE[kind](address).open(terms())

    commands: dict[str, Callable[..., None]] = {
        "contend": run_contend,
        "create": run_create,
        "enrol": run_enrol,
        "answer": run_answer,
        "spend": run_spend,
        "endure": run_endure,
        "born": run_born,
        "fill": run_fill,
    }
    commands[command](open_, *rest)


if __name__ == "__main__":
    main()
