"""Who reuses what others paid for pays them a part of it: the engine beside the pure rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.amounts import QUANTA
from defray.ledger.records import Release
from defray.policy.sharing import ALONE, SHARING, SURPLUS, Rule
from tests.engine.analysts import ITEMS, Analysts

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
        for other, share in THREE.items():
            account, cap = analysts.pool.accounts[other], int(share * QUANTA)
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
@settings(max_examples=25, deadline=None)
@given(st.lists(asked, min_size=4, max_size=24))
def test_accounts_and_shadows_are_those_of_the_rule(rule: Rule, sequence: list[Asked]) -> None:
    run(Analysts(rule, THREE), sequence)


@settings(max_examples=3, deadline=None)
@given(st.lists(asked, min_size=6, max_size=12))
def test_a_ledger_in_a_file_does_the_same(tmp_path_factory, sequence: list[Asked]) -> None:
    run(Analysts(Rule(), THREE, tmp_path_factory.mktemp("reuse")), sequence)
