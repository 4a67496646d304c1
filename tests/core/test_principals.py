"""Principals are what is known of them: a fold of changes, in which shares never sum above the whole."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.principals import (
    NOBODY,
    Enrolment,
    Principal,
    Principals,
    enrolled,
)
from defray.errors import BadInput, NotFound
from tests.strategies import changes, likely


def naive(state: Mapping[str, dict[str, Any]], change: Enrolment) -> dict[str, dict[str, Any]]:
    """What a change makes of people kept in plain dicts, case by case; ValueError if it is not true."""
    new = {name: dict(one) for name, one in state.items()}
    share = change.share
    if change.role == "curator":
        sound = share is None
    else:
        sound = share is not None and 0 <= share <= 1 and share.denominator <= 10**6
    if not sound or not change.name.islower():
        raise ValueError
    if change.event == "add":
        if change.name in new:
            raise ValueError
        new[change.name] = {"role": change.role, "share": share, "active": True}
    else:
        one = new.get(change.name)
        if one is None or one["role"] != change.role:
            raise ValueError
        if change.event == "share":
            if share == one["share"]:
                raise ValueError
            one["share"] = share
        else:
            if share != one["share"] or one["active"] != (change.event == "suspend"):
                raise ValueError
            one["active"] = not one["active"]
    if sum(one["share"] or 0 for one in new.values()) > 1:
        raise ValueError
    return new


@given(plan=st.lists(st.tuples(changes(), st.booleans()), max_size=30))
def test_any_changes_give_what_is_true_of_them_and_shares_never_exceed_the_whole(
    plan: list[tuple[Enrolment, bool]],
) -> None:
    principals: Principals = NOBODY
    state: dict[str, dict[str, Any]] = {}
    taken: list[Enrolment] = []
    for drawn, as_likely in plan:
        change = likely(drawn, principals) if as_likely else drawn
        try:
            state = naive(state, change)
        except ValueError:
            with pytest.raises(BadInput):
                enrolled(principals, change)
        else:
            principals = enrolled(principals, change)
            taken.append(change)
        assert {
            p.name: {"role": p.role, "share": p.share, "active": p.active}
            for p in principals.values()
        } == state
        assert list(principals) == list(state)
        assert principals.assigned == sum(p.share or 0 for p in principals.values())
        assert 0 <= principals.assigned <= 1
        assert principals.reserve == 1 - principals.assigned
    again: Principals = NOBODY
    for change in taken:
        body = change.to_json()
        assert Enrolment.from_json(body) == change
        again = enrolled(again, Enrolment.from_json(body))
    assert list(again.items()) == list(principals.items())


def test_thirds_fill_the_whole_and_nothing_more_fits() -> None:
    principals: Principals = NOBODY
    for name in ("ana", "ben", "cem"):
        principals = enrolled(principals, Enrolment("add", name, "analyst", Fraction(1, 3)))
    assert principals.reserve == 0
    least = Enrolment("add", "dan", "analyst", Fraction(1, 10**6))
    with pytest.raises(BadInput, match="0 can be given"):
        enrolled(principals, least)
    without = Enrolment("add", "dan", "analyst", Fraction(0))
    assert enrolled(principals, without)["dan"] == Principal("dan", "analyst", Fraction(0))


def test_a_suspended_analyst_keeps_the_share() -> None:
    quarter = Fraction(1, 4)
    principals = enrolled(NOBODY, Enrolment("add", "ana", "analyst", quarter))
    principals = enrolled(principals, Enrolment("suspend", "ana", "analyst", quarter))
    with pytest.raises(BadInput, match=r"0\.75 can be given") as caught:
        enrolled(principals, Enrolment("add", "ben", "analyst", Fraction(4, 5)))
    assert caught.value.hint
    with pytest.raises(NotFound, match="'ben'"):
        enrolled(principals, Enrolment("resume", "ben", "analyst", quarter))
