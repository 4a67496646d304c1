"""Answers explained, refreshed and audited through the whole engine: all of it from the log alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.claims import unfounded
from defray.core.target import two_sided
from defray.errors import BudgetRefused, NotFound
from defray.ledger.records import Release
from defray.logbook import Logged, derived_fields, releases
from defray.session import Session
from tests.tables import COLUMNS, open_session, people, write_contract, write_people

TOP = "rho = 1\nn_max = 100000\nm_floor = 100"

ASKED = (
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 50),
    ("SELECT COUNT(*) FROM people WHERE age >= 40", 50),
    ("SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 60", 60),
    ("SELECT COUNT(*) FROM people WHERE age >= 20 AND sex = 'F'", 50),
    ("SELECT COUNT(*) FROM people WHERE age >= 61", 45),
    ("SELECT SUM(income) FROM people WHERE age < 30", 3_000_000),
    ("SELECT AVG(income) FROM people WHERE age < 30", 4000),
    ("SELECT COUNT(*) FROM people WHERE age < 30", "10%"),
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, dict[str, Any]]]:
    """A session after some asks, and the paid answers by id."""
    with people(tmp_path_factory.mktemp("asked"), TOP, 2000) as session:
        answers: dict[str, Any] = {}
        for sql, within in ASKED:
            answer = session.ask(sql, within=within)
            if answer.charged_rho:
                answers[session.history()[-1]["id"]] = answer
        yield session, answers


def logged(session: Session) -> list[Logged]:
    """The releases of the log."""
    domain, rows = session.contract.domain, session.contract.unit.max_rows
    return [
        Logged(seq, Release.from_json(body, derived_fields(body, domain, rows)[0]))
        for _, seq, body in releases(session._engine.ledger)
    ]


def test_every_paid_answer_is_explained_as_it_was_given(asked):
    session, answers = asked
    assert len(answers) >= 6
    for name, answer in answers.items():
        told = session.explain(name)
        stepwise = "AVG" in told["question"] or "%" in told["rows"][0]["target"]
        assert told["question"] == answer.question
        for row, explained in zip(answer.rows, told["rows"], strict=True):
            assert explained["value"] == row.value
            assert explained["half_width"] == row.half_width
            assert dict(explained["group"]) == dict(row.group)
            assert all(part["stands"] for part in explained["parts"])
        assert 0 <= told["paid_before"] <= 1
        assert told["charged_rho"] <= answer.charged_rho * (1 + 1e-12)
        assert stepwise or told["charged_rho"] == pytest.approx(answer.charged_rho)
        assert set(told["bought"]).isdisjoint(told["paid_by"])
        assert sum(r["share"] for r in told["releases"]) == pytest.approx(1)


def test_variances_are_those_of_the_half_widths(asked):
    session, answers = asked
    for name in answers:
        told = session.explain(name)
        for row in told["rows"]:
            if row["variance"] is not None and not row["target"].endswith("%"):
                half = two_sided(1 - told["confidence"]) * math.sqrt(row["variance"])
                assert half <= row["half_width"] * (1 + 1e-9)
                assert half >= row["half_width"] * (1 - 1e-3)


def test_weights_of_a_view_add_up_to_its_value(asked):
    session, answers = asked
    values = {one.seq: one.release for one in logged(session)}
    seen = 0
    for name in answers:
        for row in session.explain(name)["rows"]:
            for part in row["parts"]:
                if part["way"] == "residuals" or part["factor"] != 1.0:
                    continue
                total = sum(
                    Fraction(w["exact"])
                    * Fraction(values[int(w["release"])].values[w["place"]])
                    / 2 ** values[int(w["release"])].step
                    for w in part["weights"]
                )
                unit = Fraction(part["unit"])
                assert float(total * unit) == pytest.approx(row["value"], rel=1e-12)
                seen += 1
    assert seen >= 4


def test_an_answer_is_found_by_the_ids_of_its_rows_and_releases(asked):
    session, answers = asked
    for name, answer in answers.items():
        told = session.explain(name)
        for bought in told["bought"]:
            assert session.explain(bought) == told
            assert session.explain(int(bought)) == told
        for row in answer:
            assert session.explain(row.id) == told


@pytest.mark.parametrize("name", ["", "0", "1", "2", "99999", "x", "3.x", "-3", "²", "9" * 30, 1.5])
def test_unknown_ids_are_refused_by_name(asked, name):
    session, _ = asked
    with pytest.raises(NotFound, match="history"):
        session.explain(name)


def test_later_releases_change_no_explanation(tmp_path: Path):
    with people(tmp_path, TOP, 2000) as session:
        session.ask(ASKED[1][0], within=50)
        first = session.history()[-1]["id"]
        told = session.explain(first)
        assert told["paid_before"] == 0
        assert told["paid_by"] == []
        session.ask(ASKED[2][0], within=20)
        assert session.explain(first) == told


@pytest.mark.parametrize("top", ['support = "exact"', 'support = "linear"'])
@pytest.mark.parametrize("validity", ["fixed", "anytime", "looks=5", "confirm"])
def test_all_supports_and_validities_are_explained_and_borne(tmp_path: Path, top, validity):
    with people(tmp_path, f"{TOP}\n{top}", 2000) as session:
        for within in (70, 40, 41):
            answer = session.ask(ASKED[1][0], within=within, validity=validity)
            grouped = session.ask(ASKED[0][0], within=within, validity=validity)
            if answer.charged_rho:
                told = session.explain(answer.only.id)
                assert told["rows"][0]["value"] == answer.value
                assert told["rows"][0]["half_width"] == answer.half_width
            if grouped.charged_rho:
                told = session.explain(grouped[0].id)
                assert [r["value"] for r in told["rows"]] == [r.value for r in grouped]
        assert told["support"] == top.split('"')[1]
        assert session.audit().ok


def test_a_given_spend_is_explained(tmp_path: Path):
    with people(tmp_path, TOP, 2000) as session:
        session.ask(ASKED[1][0], rho=0.001)
        answer = session.ask(ASKED[1][0], rho=0.004)
        told = session.explain(answer.only.id)
        assert told["paid_before"] == pytest.approx(0.25)
        assert told["from_scratch_rho"] == pytest.approx(0.004)
        assert session.audit().ok


def test_answers_of_an_earlier_data_version_are_explained(tmp_path: Path):
    with people(tmp_path, TOP, 2000) as session:
        old = session.ask(ASKED[1][0], within=50)
        old_told = session.explain(old.only.id)
    write_people(tmp_path, 3000)
    columns = '[columns.age]\ntype = "integer"\nmin = 0\nmax = 99\n'
    with open_session(write_contract(tmp_path, TOP, columns=columns)) as session:
        new = session.ask(ASKED[1][0], within=50)
        assert session.explain(old.only.id) == old_told
        told = session.explain(new.only.id)
        assert (told["data_version"], told["paid_by"]) == (2, [])
        assert "rows" not in session.history(refresh=True)[0]
        assert session.audit().ok


# -- claims ----------------------------------------------------------------------------------------


def test_what_was_claimed_is_borne(asked):
    session, _ = asked
    made = logged(session)
    assert sum(one.release.note.get("met") is True for one in made) >= 6
    assert list(unfounded(session.contract, made)) == []
    assert session.audit().ok


def tampered(session: Session, change: Any) -> list[str]:
    made = [replace(one, release=change(one.release)) for one in logged(session)]
    return [finding.message for finding in unfounded(session.contract, made)]


def noisier(release: Release) -> Release:
    """Twice the noise."""
    return replace(
        release,
        sigmas=tuple(s and 2 * s for s in release.sigmas),
        precisions=tuple(p and p / 4 for p in release.precisions),
    )


def other_weight(release: Release) -> Release:
    if release.weights["kind"] != "cells":
        return release
    steps = list(release.weights["steps"])
    steps[3] += max(abs(s) for s in steps) // 8 + 1
    return replace(release, weights={**release.weights, "steps": steps})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (noisier, "not bear"),
        (other_weight, "not bear"),
        (lambda r: replace(r, step=r.step + 2), "its step is"),
        (lambda r: replace(r, question=r.question.replace("WITHIN 50", "WITHIN 30")), "within 30"),
        (lambda r: replace(r, question=r.question.replace("WITHIN", "WITHAL")), "cannot be read"),
        (lambda r: replace(r, question=r.question.replace("age >= 40", "age >= 39")), "not bear"),
        (lambda r: replace(r, question=r.question.replace("age", "wage")), "cannot be read"),
        (lambda r: replace(r, settles=((b"0" * 16, Fraction(1, 9), Fraction(1, 20)),)), "settles"),
        (lambda r: replace(r, note={**r.note, "m_floor": "no"}), "cannot be followed"),
    ],
)
def test_what_was_changed_afterwards_is_found(asked, change, said):
    session, _ = asked
    found = tampered(session, change)
    assert any(said in message for message in found), found


def test_a_release_that_was_left_out_is_missed(asked):
    session, _ = asked
    made = logged(session)
    without = [one for one in made if one.seq != made[0].seq]
    assert any("not bear" in f.message for f in unfounded(session.contract, without))


def test_a_claim_holds_under_the_numbers_that_it_was_made_under(tmp_path: Path):
    with people(tmp_path, TOP, 2000) as session:
        for sql, within in ASKED[:5]:
            session.ask(sql, within=within)
    later = write_contract(tmp_path, "rho = 1\nn_max = 100000000000\nm_floor = 7")
    with open_session(later) as session:
        assert session.audit().ok


# -- history ---------------------------------------------------------------------------------------


def test_earlier_answers_improve_for_free(tmp_path: Path):
    with people(tmp_path, TOP, 2000) as session:
        first = session.ask("SELECT COUNT(*) FROM people WHERE age < 50", within=80)
        session.ask("SELECT COUNT(*) FROM people WHERE age < 30", within=20)
        session.ask("SELECT COUNT(*) FROM people WHERE age BETWEEN 30 AND 49", within=20)
        spent, entries = session.balance()["spent_rho"], session.audit().entries
        told = session.history(refresh=True)[0]["rows"][0]
        assert told["then"] == {"value": first.value, "half_width": first.half_width}
        assert told["now"]["half_width"] < 30 < told["then"]["half_width"]
        again = session.ask("SELECT COUNT(*) FROM people WHERE age < 50", within=80)
        assert (again.charged_rho, again.value) == (0, told["now"]["value"])
        assert (session.balance()["spent_rho"], session.audit().entries) == (spent, entries)


def test_no_answer_is_known_less_now_than_then(asked):
    session, answers = asked
    told = {a["id"]: a["rows"] for a in session.history(refresh=True)}
    assert told.keys() >= answers.keys()
    for name, rows in told.items():
        for row in rows:
            if "AVG" not in answers[name].question:  # how wide a ratio is depends on its values
                assert row["now"]["half_width"] <= row["then"]["half_width"] * (1 + 1e-6)


def test_history_charges_an_ask_what_its_dearest_cell_paid(tmp_path: Path):
    with people(tmp_path, "rho = 1", 2000) as session:
        for sql, within in ASKED[:5]:
            before = session.balance()["spent_rho"]
            answer = session.ask(sql, within=within)
            told = session.history()[-1]
            added = session.balance()["spent_rho"] - before
            assert added <= told["charged_rho"] * (1 + 1e-12)
            assert told["charged_rho"] == pytest.approx(answer.charged_rho)
            assert told["charged_rho"] <= sum(r["charged_rho"] for r in told["releases"]) + 1e-15


# -- regions ---------------------------------------------------------------------------------------


def test_the_balance_of_a_column_is_by_region(tmp_path: Path):
    with people(tmp_path, 'rho = 1\nsupport = "linear"', 2000) as session:
        session.ask("SELECT COUNT(*) FROM people WHERE age < 30", rho=0.2)
        session.ask("SELECT COUNT(*) FROM people WHERE age >= 60", rho=0.1)
        found = session.balance(by="AGE")
        assert found["spent_rho"] == pytest.approx(0.2)
        assert found["least_charged"]["spent_rho"] == 0
        assert found["least_charged"]["remaining_rho"] == 1
        assert found["by"]["column"] == "age"
        told = {v["from"]: v for v in found["by"]["values"]}
        assert [(v["from"], v["to"]) for v in told.values()] == [
            (0, 29), (30, 59), (60, 120), (None, None)
        ]  # fmt: skip
        assert told[0]["spent_rho"] == pytest.approx(0.2)
        assert told[30]["remaining_rho"] == 1
        assert sum(v["values"] for v in told.values()) == 122
        with pytest.raises(NotFound, match="no column wage"):
            session.balance(by="wage")


def test_a_balance_by_column_before_the_first_question(tmp_path: Path):
    with people(tmp_path, "rho = 1", 2000) as session:
        values = session.balance(by="sex")["by"]["values"]
        assert [(v["from"], v["spent_rho"]) for v in values] == [("F", 0), ("M", 0), (None, 0)]


def test_a_refusal_speaks_of_the_region(tmp_path: Path):
    young = "SELECT COUNT(*) FROM people WHERE age < 30"
    with people(tmp_path, 'rho = 1\nsupport = "linear"', 2000) as session:
        session.ask(young, rho=0.9)
        with pytest.raises(BudgetRefused, match=r"0\.1 of .* remain for this region") as refused:
            session.ask(young, within=0.1)
        assert "the balance by age" in refused.value.hint
        assert session.ask("SELECT COUNT(*) FROM people WHERE age >= 30", rho=0.9).charged_rho


def test_under_exact_support_no_refusal_speaks_of_regions(tmp_path: Path):
    with people(tmp_path, 'rho = 1\nsupport = "exact"', 2000) as session:
        with pytest.raises(BudgetRefused, match="answers remain \\(") as refused:
            session.ask("SELECT COUNT(*) FROM people WHERE age < 30", within=0.1)
        assert "--by" not in refused.value.hint


def test_under_exact_support_all_regions_are_charged_alike(tmp_path: Path):
    with people(tmp_path, 'rho = 1\nsupport = "exact"', 2000) as session:
        session.ask("SELECT COUNT(*) FROM people WHERE age < 30", rho=0.2)
        found = session.balance(by="age")
        assert "least_charged" not in found
        assert [v["spent_rho"] for v in found["by"]["values"]] == [pytest.approx(0.2)] * 2


# -- consistency -----------------------------------------------------------------------------------

PARENTS = (
    ("", ""),
    (" WHERE age BETWEEN 20 AND 60", " AND "),
    (" WHERE sex = 'F'", " AND "),
    (" WHERE age >= 40", " AND "),
)


@pytest.mark.parametrize(("where", "_and"), PARENTS)
def test_a_parent_is_the_sum_of_its_children(tmp_path: Path, where: str, _and: str):
    """After mixed questions, all from one state: asked again, nothing is charged."""
    with people(tmp_path, TOP, 2000) as session:
        for sql, within in ASKED[:5]:
            session.ask(sql, within=within)
        group, within = "age" if "sex" in where else "sex", 400
        parent = f"SELECT COUNT(*) FROM people{where}"
        children = f"SELECT {group}, COUNT(*) FROM people{where} GROUP BY {group}"
        session.ask(parent, within=40)
        session.ask(children, within=within)
        whole, parts = session.ask(parent, within=400), session.ask(children, within=within)
        assert whole.charged_rho == parts.charged_rho == 0
        total = sum(row.value for row in parts)
        assert total == pytest.approx(whole.value, rel=1e-9)


# -- promises --------------------------------------------------------------------------------------


def test_promised_answers_are_explained_and_borne_also_when_the_promise_is_declared_no_more(
    tmp_path: Path,
):
    promise = '[[promise]]\ncolumns = ["sex"]\nkind = ["subsets"]\nwithin = 100\n'
    write_people(tmp_path, 2000)
    kept = write_contract(tmp_path, TOP, columns=COLUMNS + promise)
    asked = [
        ("SELECT COUNT(*) FROM people WHERE sex = 'F'", 100),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 120),
        ("SELECT COUNT(*) FROM people WHERE age >= 40 AND sex = 'M'", 60),
        ("SELECT COUNT(*) FROM people WHERE sex IN ('F', 'M')", 100),
        ("SELECT COUNT(*) FROM people WHERE sex = 'M'", 40),
    ]
    with open_session(kept) as session:
        for sql, within in asked:
            answer = session.ask(sql, within=within)
            if answer.charged_rho:
                told = session.explain(session.history()[-1]["id"])
                assert [r["value"] for r in told["rows"]] == [r.value for r in answer]
                assert all(part["stands"] for r in told["rows"] for part in r["parts"])
        assert session.audit().ok
    with open_session(write_contract(tmp_path, TOP)) as session:
        assert session.audit().ok


@pytest.mark.long
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "age < {}", "age BETWEEN 10 AND {}", "sex = 'F' AND age >= {}"]),
            st.integers(11, 110),
            st.sampled_from(["", "sex", "age"]),
            st.sampled_from([30, 60, 61, 200]),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=10)
def test_no_audit_raises_a_false_alarm(everyone: Path, asked: list[tuple[str, int, str, int]]):
    for left in everyone.glob("contract.ledger*"):
        left.unlink()
    with open_session(everyone / "contract.toml") as session:
        for where, edge, by, within in asked:
            condition = f" WHERE {where.format(edge)}" if where else ""
            group = f" GROUP BY {by}" if by else ""
            session.ask(f"SELECT COUNT(*) FROM people{condition}{group}", within=within)
        assert session.audit().findings == ()


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everyone")
    write_people(folder, 2000)
    write_contract(folder, "rho = 100\nn_max = 100000")
    return folder
