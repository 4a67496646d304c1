"""Who reuses what others paid for pays them a part of it: the engine beside the pure rule."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.books import run_audit
from defray.controller import share
from defray.core.amounts import QUANTA
from defray.errors import BudgetRefused, LedgerCorrupt
from defray.ledger.records import Entry, Release
from defray.ledger.sqlite import SqliteLedger
from defray.policy import slices, stakes
from defray.policy.sharing import ALONE, SHARING, SURPLUS, Rule
from defray.session import Session
from defray.simulate.through_engine import half_width
from tests.engine.analysts import ITEMS, Analysts, engine_of
from tests.ledger.older import turned_back

THREE = {"ann": Fraction(1, 4), "bob": Fraction(1, 4), "eve": Fraction(3, 8)}
RULES = [Rule(*options) for options in itertools.product(SHARING, SURPLUS, ALONE)]
Asked = tuple[str, int, float]


def no_tie(name: str, item: int, n: int) -> Asked:
    """What one item takes is never exactly what was saved on others: there a quantum would decide."""
    return name, item, n * (1 + n * 0.013) * (1 + item * 0.0317) / 61


asked = st.builds(
    no_tie, st.sampled_from(list(THREE)), st.integers(0, ITEMS - 1), st.integers(1, 12)
)


def run(analysts: Analysts, sequence: Sequence[Asked]) -> None:
    """Every ask by both, with the invariants after each."""
    for n, (name, item, demand) in enumerate(sequence, 1):
        others = {other: analysts.bound(other) for other in THREE if other != name}
        met = analysts.ask(name, item, demand)
        expected = analysts.settle(name, item, demand)
        analysts.check()
        assert all(analysts.bound(other) == bound for other, bound in others.items()), "I5"
        near = 4 * n * len(THREE)  # every release and move is rounded to whole quanta
        assert met == expected
        for other, part in THREE.items():
            account, cap = analysts.pool.accounts[other], int(part * QUANTA)
            assert abs(cap - analysts.paid(other) - account.balance) <= near
            assert abs(cap - analysts.bound(other) - account.shadow) <= near
        assert known(analysts, item) >= known(analysts, item, name), "I3 and I4"
    assert analysts.session.audit().ok


def known(analysts: Analysts, item: int, alone: str | None = None) -> Fraction:
    """The precision of an item's count, publicly or to a shadow, from the log alone."""
    found = Fraction(0)
    for entry in analysts.engine.ledger.entries():
        body = entry.read()
        if body["kind"] != ("release" if alone is None else "shadow"):
            continue
        release = Release.from_json(body)
        if f"item = {item} " in f"{release.question} " and alone in (None, release.by):
            found += sum(p for p in release.precisions if p is not None)
    return found


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=12, deadline=None)
@given(st.lists(asked, min_size=4, max_size=24))
def test_accounts_and_shadows_are_those_of_the_rule(rule: Rule, sequence: list[Asked]) -> None:
    run(Analysts(rule, THREE), sequence)


@settings(max_examples=3, deadline=None)
@given(st.lists(asked, min_size=6, max_size=12))
def test_a_ledger_in_a_file_does_the_same(tmp_path_factory, sequence: list[Asked]) -> None:
    run(Analysts(Rule(), THREE, tmp_path_factory.mktemp("reuse")), sequence)


# -- that it would be noticed ------------------------------------------------------------------------


def test_a_rule_that_gives_back_too_much_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: all of what is reused is paid to those before, who then have more left than it cost."""

    def all_of_it(pieces: Any, analyst: str, start: int, end: int, most: int) -> Any:
        found, gains = slices.joined(pieces, analyst, start, end, most)
        return found, {name: 2 * gain for name, gain in gains.items()}

    monkeypatch.setattr(stakes, "joined", all_of_it)
    with pytest.raises(AssertionError):
        run(Analysts(Rule(), THREE), [no_tie(name, 1, 6) for name in THREE])


def tampered(path: Path, change: Any) -> list[str]:
    """What an audit says once every shadow in the log was changed, and the chain made again."""
    with closing(sqlite3.connect(path)) as sql:
        for trigger in ("entries_stay", "entries_remain"):
            sql.execute(f"DROP TRIGGER {trigger}")
        prev = ""
        for seq, text in sql.execute("SELECT seq, body FROM entries ORDER BY seq").fetchall():
            body = json.loads(text)
            if body["kind"] == "shadow" and body.get("back"):
                change(body)
            entry = Entry.chained(
                {k: v for k, v in body.items() if k not in ("seq", "prev")},
                seq,
                prev or body["prev"],
            )
            prev = entry.hash
            sql.execute(
                "UPDATE entries SET body = ?, hash = ? WHERE seq = ?", (entry.body, prev, seq)
            )
        sql.commit()
    with SqliteLedger.read(path) as ledger:
        return [f.message for f in run_audit(ledger).findings]


def more(body: dict[str, Any]) -> None:
    body["back"] = {name: quanta + 1 for name, quanta in body["back"].items()}


def to_another(body: dict[str, Any]) -> None:
    body["back"] = {"eve": sum(body["back"].values())}


def beyond_the_shadow(body: dict[str, Any]) -> None:
    body["back"] = dict.fromkeys(body["back"], body["charge"] + 1)


def less_than_nothing(body: dict[str, Any]) -> None:
    body["back"] = {name: -quanta for name, quanta in body["back"].items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: None, None),
        (more, "by the rule it is"),
        (to_another, "by the rule it is"),
        (lambda body: body.update(back={}), "by the rule it is"),
        (lambda body: body.pop("back"), "total is kept as"),
        (beyond_the_shadow, "more"),
        (less_than_nothing, "cannot come back"),
    ],
)
def test_a_transfer_that_was_tampered_with_is_found(tmp_path: Path, change: Any, said: Any) -> None:
    analysts = Analysts(Rule(), THREE, tmp_path)
    for name in ("ann", "bob"):
        assert analysts.ask(name, 1, 0.05)
    analysts.engine.close()
    found = tampered(tmp_path / "t.ledger", change)
    assert not found if said is None else any(said in message for message in found), found


# -- what analysts see -------------------------------------------------------------------------------

HALVES = {"ann": Fraction(1, 2), "bob": Fraction(1, 2)}
SMALL = [
    *(f"SELECT COUNT(*) FROM t WHERE item = {i} AND half = {h}" for i in range(4) for h in (0, 1)),
    *(f"SELECT COUNT(*) FROM t WHERE half = {h}" for h in (0, 1)),
]
DEAR = "SELECT COUNT(*) FROM t"


def satisfied(analysts: Analysts) -> int:
    """Bob half finishes a question that ann alone could never ask; of eleven questions, how many of hers are
    answered then?"""
    assert analysts.tell("bob", DEAR, half_width(0.499))
    met = [analysts.tell("ann", DEAR, half_width(0.95))]
    return sum(met + [analysts.tell("ann", sql, half_width(0.0499)) for sql in SMALL])


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("surplus", SURPLUS)
def test_nobody_is_lured_into_an_expensive_rest(sharing: str, surplus: str) -> None:
    analysts = Analysts(Rule(sharing, surplus), HALVES)
    assert satisfied(analysts) == 10
    analysts.check()


def test_who_may_spend_the_whole_account_is_lured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above."""
    monkeypatch.setattr(
        share.Share, "savings", lambda share, ask, moment, moves: (moment.held, moment.funds)
    )
    with pytest.raises(LedgerCorrupt, match="the answer/ann purse would reach"):
        satisfied(Analysts(Rule(), HALVES))


GROUPED = [
    "SELECT item, COUNT(*) FROM t GROUP BY item",
    "SELECT COUNT(*) FROM t WHERE item = 1",
    "SELECT half, COUNT(*) FROM t GROUP BY half",
    "SELECT COUNT(*), COUNT(half) FROM t WHERE item < 3",
]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(THREE)),
            st.sampled_from(GROUPED),
            st.sampled_from([9, 14, "ANYTIME", "CONFIRM", 25, "10%"]),
        ),
        min_size=4,
        max_size=12,
    ),
    st.sampled_from(RULES[6:]),
)
def test_tables_and_all_that_can_be_asked_keep_the_invariants(
    sequence: list[tuple[str, str, Any]], rule: Rule
) -> None:
    analysts = Analysts(rule, THREE)
    for name, sql, within in sequence:
        mine = analysts.session.on_behalf_of(name)
        wish = {"validity": within.lower(), "within": 20} if str(within).isalpha() else None
        with suppress(BudgetRefused):
            mine.ask(sql, **(wish or {"within": within}))
        analysts.check()
    assert analysts.session.audit().ok


def test_a_table_is_shared_where_the_same_was_measured_together() -> None:
    analysts = Analysts(Rule(), THREE)
    table, cell = GROUPED[:2]
    first = analysts.session.on_behalf_of("ann").ask(table, within=10)
    again = analysts.session.on_behalf_of("bob").ask(table, within=10)
    assert (again.charged_rho, again.to_others_rho) == (0, pytest.approx(first.charged_rho / 2))
    part = analysts.session.on_behalf_of("eve").ask(cell, within=10)
    assert (part.charged_rho, part.to_others_rho) == (0, 0)
    analysts.check()


def test_lists_are_quoted_as_they_are_asked() -> None:
    analysts = Analysts(Rule(), THREE)
    questions = [*SMALL[:3], *GROUPED[:1], SMALL[0]]
    ann, bob = (analysts.session.on_behalf_of(name) for name in ("ann", "bob"))
    for sql in questions:
        ann.ask(sql, within=12)
    for within in (12, 9):
        for quoted, sql in zip(bob.quote_all(questions, within=within), questions, strict=True):
            told = bob.ask(sql, within=within)
            assert quoted.exact
            assert quoted.charged_rho == told.charged_rho
            assert quoted.to_others_rho == told.to_others_rho
    assert analysts.session.audit().ok


def test_what_came_back_is_told_and_can_be_spent_by_who_is_away() -> None:
    """Somebody who is suspended is paid back all the same; with new data nobody is, of what was before."""
    analysts = Analysts(Rule(), THREE)
    assert analysts.ask("ann", 1, 0.2)
    analysts.access.suspend("ann")
    assert analysts.ask("bob", 1, 0.2)
    told = {a["name"]: a for a in analysts.session.balance()["accounts"]}
    back = told["ann"]["from_others_rho"]
    assert back == told["bob"]["to_others_rho"] == pytest.approx(0.1)
    assert told["ann"]["remaining_rho"] == pytest.approx(0.15)
    assert [told[name]["saved_rho"] for name in ("ann", "bob")] == pytest.approx([0.1, 0.1])
    (one,) = analysts.session.on_behalf_of("bob").spending()
    assert one["spent_rho"] == told["bob"]["spent_rho"]
    with analysts.engine.ledger.transaction() as tx:
        tx.open_epoch("other", analysts.engine.contract.domain.to_json())
    answer = analysts.session.on_behalf_of("bob").ask(DEAR, within=half_width(0.01))
    assert answer.to_others_rho == 0
    analysts.check()
    assert analysts.session.audit().ok


def test_what_nobodys_share_paid_for_is_free_for_all() -> None:
    analysts = Analysts(Rule(), THREE)
    assert analysts.session.ask(DEAR, within=half_width(0.05)).met  # from the reserve
    answer = analysts.session.on_behalf_of("bob").ask(DEAR, within=half_width(0.05))
    assert (answer.charged_rho, answer.to_others_rho) == (0, 0)


def test_reuse_before_it_was_shared_stays_as_it_was(tmp_path: Path) -> None:
    """A ledger of an earlier version, whose contract shares reuse from now on: what was logged is not settled
    again."""
    before = Analysts(Rule("none"), THREE, tmp_path)
    for name in ("ann", "bob"):
        assert before.ask(name, 1, 0.1)
    paid = {name: before.paid(name) for name in THREE}
    before.engine.close()
    turned_back(tmp_path / "t.ledger", 4)
    session = Session(engine_of(Rule(), tmp_path))
    assert (
        session.on_behalf_of("bob")
        .ask("SELECT COUNT(*) FROM t WHERE item = 1", within=half_width(0.1))
        .met
    )
    after = {a["name"]: a["spent_rho"] for a in session.balance()["accounts"]}
    assert after == {name: quanta / QUANTA for name, quanta in paid.items()}
    eve = session.on_behalf_of("eve").ask(
        "SELECT COUNT(*) FROM t WHERE item = 1", within=half_width(0.1)
    )
    assert eve.to_others_rho == pytest.approx(0.05)
    assert session.audit().ok
    session.close()


@pytest.mark.parametrize("surplus", SURPLUS)
def test_what_linear_support_guarantees_does_not_depend_on_others(surplus: str) -> None:
    """I5: whatever bob asks about what ann asks about, her shadow moves alike."""
    moved = []
    for others in (False, True):
        analysts = Analysts(Rule("none", surplus), HALVES, support="linear")
        bob = analysts.session.on_behalf_of("bob")
        for sql, about in zip(GROUPED[:3], SMALL, strict=False):
            if others:
                bob.ask(about, within=half_width(0.02))
            analysts.session.on_behalf_of("ann").ask(sql, within=half_width(0.05))
        with analysts.engine.ledger.view() as view:
            moved.append([s.charge for _, s in view.shadows(0) if s.by == "ann"])
        assert analysts.session.audit().ok
    assert moved[0] == moved[1]
