"""What was said is said again only while nothing has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from defray.access import Access
from defray.errors import Forbidden
from defray.session import Session
from tests.tables import open_session, people, write_people

COUNT = "SELECT COUNT(*) FROM people WHERE age < {}"


@pytest.fixture
def session(tmp_path: Path):
    with people(tmp_path, "rho = 1", 2000) as session:
        yield session


def computed(session: Session, sql: str) -> tuple[dict, dict]:
    """The answer and the quote of a session that remembers nothing."""
    with open_session(session.contract.path) as fresh:
        return fresh.ask(sql, within=50).to_dict(), fresh.quote(sql, within=50).to_dict()


def told(session: Session, sql: str) -> tuple[dict, dict]:
    return session.ask(sql, within=50).to_dict(), session.quote(sql, within=50).to_dict()


def test_repeats_are_what_a_new_session_says_whoever_asked_meanwhile(session: Session):
    asked = [COUNT.format(age) for age in (20, 40, 60)]
    for sql in asked:
        session.ask(sql, within=50)
        for earlier in asked[: asked.index(sql) + 1]:
            for _ in range(2):
                assert told(session, earlier) == computed(session, earlier)
    before = told(session, asked[0])
    with open_session(session.contract.path) as other:
        other.ask(COUNT.format(80), within=30)
    assert told(session, asked[0]) == computed(session, asked[0]) != before


def test_other_accuracies_and_limits_are_other_questions(session: Session):
    wide = session.ask(COUNT.format(20), within=50)
    assert session.ask(COUNT.format(20), within=50).half_width == wide.half_width
    assert session.quote(COUNT.format(20), within=50).charged_rho == 0
    assert session.quote(COUNT.format(20), within=20).charged_rho > 0
    assert session.ask(COUNT.format(20), within=20).half_width < wide.half_width


def test_changed_data_are_not_answered_from_before(session: Session):
    session.ask(COUNT.format(20), within=50)
    assert session.quote(COUNT.format(20), within=50).charged_rho == 0
    write_people(session.contract.directory, 3000)
    assert session.quote(COUNT.format(20), within=50).charged_rho > 0
    assert session.ask(COUNT.format(20), within=50).data_version == 2


def test_who_was_suspended_is_told_nothing_again(tmp_path: Path):
    with people(tmp_path, "rho = 1", 2000) as session:
        access = Access(session._engine.ledger)
        access.add("ann", share=0.5)
        ann = session.on_behalf_of("ann")
        ann.ask(COUNT.format(20), within=50)
        for _ in range(2):
            assert told(ann, COUNT.format(20))[0]["charged_rho"] == 0
        access.suspend("ann")
        with pytest.raises(Forbidden):
            ann.ask(COUNT.format(20), within=50)
        with pytest.raises(Forbidden):
            ann.quote(COUNT.format(20), within=50)
