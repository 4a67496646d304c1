"""Who paid for what, down to single quanta and of functionals measured together."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.policy import stakes
from defray.policy.slices import Slice, joined
from defray.policy.stakes import Measured, Stakes

NAMES = ("ann", "bob", "cem")
KEYS = (b"a", b"b", b"c")

steps = st.tuples(
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(KEYS), min_size=1),
    st.fractions(0, 40, max_denominator=7),
)


def quanta(added: dict[bytes, Fraction]) -> int:
    return math.ceil(max(added.values()))


class World:
    """Every analyst's shadow reaches what is asked; then all are brought as far, at the asker's cost."""

    def __init__(self) -> None:
        self.stakes = Stakes()
        self.public: dict[bytes, Fraction] = defaultdict(Fraction)
        self.own: dict[tuple[str, bytes], Fraction] = defaultdict(Fraction)
        self.paid: dict[str, int] = defaultdict(int)
        self.bound: dict[str, int] = defaultdict(int)
        self.given = 0

    def ask(self, name: str, keys: set[bytes], level: Fraction) -> None:
        own = {key: self.own[name, key] for key in keys}
        moved = {key: level - had for key, had in sorted(own.items()) if level > had}
        if not moved:
            return
        made = Measured(moved, Fraction(1), quanta(moved))
        back = self.stakes.move(made, name, shares=True)
        self.bound[name] += made.charge
        for other, part in back.items():
            self.paid[other] -= part
            self.paid[name] += part
            self.given += part
        beyond = {key: level - max(self.public[key], own[key]) for key in moved}
        missing = {key: more for key, more in beyond.items() if more > 0}
        if missing:
            charge = quanta(missing)
            self.stakes.release(Measured(missing, Fraction(1), charge), name)
            self.paid[name] += charge
        for key in moved:
            self.public[key] += missing.get(key, Fraction(0))
            self.own[name, key] = level
            assert self.public[key] >= level
        for one in NAMES:
            assert 0 <= self.paid[one] <= self.bound[one]


@pytest.mark.long
@settings(max_examples=300)
@given(st.lists(steps, max_size=20))
def test_no_account_passes_its_shadow(sequence: list[Any]) -> None:
    world = World()
    for name, keys, level in sequence:
        world.ask(name, keys, level)


def test_who_pays_for_all_of_it_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the newcomer pays the whole of each slice."""

    def whole(slices: Any, name: str, low: int, high: int, most: int) -> Any:
        found, gains = joined(slices, name, low, high)
        return found, {who: gain * 3 for who, gain in gains.items()}

    monkeypatch.setattr(stakes, "joined", whole)
    world = World()
    world.ask("ann", {b"a"}, Fraction(30))
    with pytest.raises(AssertionError):
        world.ask("bob", {b"a"}, Fraction(30))


def test_only_what_was_measured_together_is_joined() -> None:
    world = World()
    world.ask("ann", {b"a", b"b"}, Fraction(10))
    world.ask("bob", {b"a"}, Fraction(10))
    assert world.given == 0
    world.ask("cem", {b"b", b"a"}, Fraction(10))
    assert (world.given, world.paid) == (5, {"ann": 5, "bob": 0, "cem": 5})


def test_what_is_no_ones_is_free_and_stays_below() -> None:
    found = Stakes()
    found.release(Measured({b"a": Fraction(4)}, Fraction(1), 4), None)
    found.release(Measured({b"a": Fraction(6)}, Fraction(1), 6), "ann")
    assert found.slices([b"a"]) == (Slice(4, ()), Slice(6, ("ann",)))
    up_to = [4, 7, 10]
    assert [
        found.branch().move(Measured({b"a": Fraction(n)}, Fraction(1), n), "bob", shares=True)
        for n in up_to
    ] == [{}, {"ann": 1}, {"ann": 3}]


def test_joining_ends_where_more_would_be_paid_than_may_be() -> None:
    pieces = [Slice(4, ("ann",)), Slice(4, ("cem",)), Slice(1, ("cem",))]
    assert joined(pieces, "bob", 0, 9, 2)[1] == {"ann": 2, "bob": -2}
    assert joined(pieces, "bob", 0, 9, 3)[1] == {"ann": 2, "bob": -2}
    assert joined(pieces, "bob", 0, 9, 4)[1] == {"ann": 2, "cem": 2, "bob": -4}
