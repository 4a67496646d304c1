"""The audit of a real contract derives again what releases of every kind say of themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from defray.access import Access
from defray.books import balance, end, run_audit
from defray.charged import paid_by
from defray.core.domain import Domain
from defray.ledger.records import Release
from defray.session import Session
from tests.ledger.makers import release
from tests.tables import people


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Ages are 121 values and NULL, sexes two and NULL."""
    with people(tmp_path, "rho = 1", 2000) as made:
        made.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex", within=200)
        yield made


def table(names: list[str], atoms: list[int], **rest: Any) -> Release:
    cells = 1
    for n in atoms:
        cells *= n
    weights = {"kind": "residual", "atoms": atoms}
    return release(sigmas=(5e8,), values=[0] * cells, weights=weights, attributes=names, **rest)


def functional(**rest: Any) -> Release:
    """Older men count three times, younger people once negatively."""
    weights = {
        "kind": "cells", "classes": [[0, 40], None], "bits": 1, "steps": [-2, -2, 0, 0, 6, 0]
    }  # fmt: skip
    return release(
        sigmas=(5e5,), weights=weights, attributes=("age", "sex"), **{"rho": Fraction(1)} | rest
    )


def put(session: Session, bare: Release, **changes: Any) -> int:
    """Append a release, with what each cell pays for it."""
    ledger = session._engine.ledger
    bare = replace(bare, keys=(), **changes)
    with ledger.transaction() as transaction:
        epoch = transaction.epoch
        assert epoch is not None
        paid = paid_by(bare, Domain.from_json(epoch.domain), session.contract.rho)
        return transaction.append(replace(bare, paid=paid))


def test_all_kinds_are_sound(session: Session) -> None:
    put(session, table(["age", "sex"], [122, 3]))
    put(session, table([], []))
    put(session, replace(functional(), by_cell=True))
    summed = functional(reach=Fraction(1000))
    put(session, summed, by_cell=True, measure="sum:income", unit=Fraction(100))
    put(
        session,
        table(["sex"], [3], reach=Fraction(500)),
        measure="centred:income",
        unit=Fraction(100),
    )
    report = session.audit()
    assert report.ok
    with session._engine.ledger.view() as view:
        strip = view.charges("answer").strip(list(session.contract.domain.names).index("sex"))
        assert view.spent("answer") == view.charges("answer").worst() == report.spent["answer"]
    assert strip[1] > strip[0] > strip[2]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: replace(table(["sex"], [3]), unit=Fraction(2)), "its unit is 2"),
        (lambda: table(["sex"], [3], reach=Fraction(2)), "its reach is 2"),
        (lambda: replace(functional(), measure="sum:income"), "its reach is 1"),
        (lambda: replace(functional(), measure="sum:age"), "do not fit"),
        (lambda: table(["sex"], [2]), "do not fit"),
        (lambda: table(["sex", "age"], [3, 122]), "do not fit"),
        (lambda: table(["city"], [3]), "do not fit"),
    ],
)
def test_what_is_not_true_of_the_domain_is_found(
    session: Session, made: Callable[[], Release], said: str
) -> None:
    bare = replace(made(), keys=(), paid=())
    with session._engine.ledger.transaction() as transaction:
        transaction.append(bare)
    findings = [f.message for f in run_audit(session._engine.ledger).findings]
    assert any(said in message for message in findings), findings


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"share":"1/2"', '"share":"1/3"', "its hash is not that of its body"),
        ('"share":"1/2"', '"share":"3/2"', "a share lies from 0 to 1"),
        ('"name":"ana"', '"name":"eve"', "there is no principal 'ana'"),
        ('"role":"analyst"', '"role":"curator"', "a curator has no share"),
    ],
)
def test_a_principal_that_was_tampered_with_is_found(
    session: Session, tmp_path: Path, old: str, new: str, said: str
) -> None:
    access = Access(session._engine.ledger)
    access.add("ana", share=0.5)
    access.suspend("ana")
    session.ask("SELECT COUNT(*) FROM people", within=200)
    assert session.audit().ok
    (path,) = tmp_path.glob("*.ledger")
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("DROP TRIGGER entries_stay")
        first = "(SELECT min(seq) FROM entries WHERE kind = 'principal')"
        sql.execute(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), ?, ?) AS BLOB) "
            f"WHERE seq = {first}",
            (old, new),
        )
        sql.commit()
    findings = [f.message for f in session.audit().findings]
    assert any(said in message for message in findings), findings


def test_the_certificate_says_what_the_dearest_cell_has_paid(session: Session) -> None:
    """The same functional of two disjoint halves of the ages costs what one of them does."""
    contract, ledger = session.contract, session._engine.ledger
    before = balance(contract, ledger)["spent_rho"]
    for steps in ([0, 0, 0, 4, 4, 4], [4, 4, 4, 0, 0, 0]):
        one = functional()
        weights = {**one.weights, "steps": steps}
        sent = release(sigmas=(5e5,), weights=weights, attributes=one.attributes, rho=contract.rho)
        put(session, sent, by_cell=True)
    spent = balance(contract, ledger)["spent_rho"]
    assert spent == pytest.approx(before + sent.charge / 2**50)
    certificate = end(contract, ledger)
    assert certificate["spent_rho"] == spent
    assert [epoch["answer"] for epoch in certificate["epochs"]] == [spent]
