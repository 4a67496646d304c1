"""What is documented is what there is."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import defray
from defray import errors
from defray.cli.numbers import rho
from defray.core.amounts import QUANTA
from defray.core.validity import KINDS as VALIDITIES
from defray.dbapi.exceptions import KINDS
from tests.controller.bench_table import Desk, question

DOCS = Path(__file__).parent.parent / "docs"


def family(cls: type[errors.DefrayError]) -> list[type[errors.DefrayError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in family(sub))]


def test_every_error_code_is_documented_with_its_class_and_exit_code():
    rows = re.findall(
        r"^\| `([a-z-]+)` \| `(\w+)` \| (\d+) \|", (DOCS / "errors.md").read_text(), re.M
    )
    there = {
        (c.code, c.__name__, str(c.exit_code))
        for c in family(errors.DefrayError)
        if c.__module__ == "defray.errors"
    }
    assert set(rows) == there


def test_what_stands_for_which_error_in_pep_249_is_documented():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", (DOCS / "clients.md").read_text(), re.M))
    assert {kind.__name__ for _, kind in KINDS} | {"NotSupportedError", "DataError"} == set(rows)
    for error, kind in KINDS:
        named = f"`{error.__name__}`" if error is not errors.DefrayError else "all others"
        assert named in rows[kind.__name__]


def test_the_prices_of_validities_are_what_they_cost():
    rows = re.findall(
        r'^\| `[A-Z0-9 ]+`, `"(\S+)"`.*\| ([0-9.]+) \| ([0-9.]+) \|$',
        (DOCS / "asking.md").read_text(),
        re.M,
    )
    costs = {v: Desk().ask(question("COUNT"), within=10, validity=v) / QUANTA for v, _, _ in rows}
    assert [(cost, float(times)) for _, cost, times in rows] == [
        (f"{c:.5f}", round(c / costs["fixed"], 2)) for c in costs.values()
    ]
    assert {v.partition("=")[0] for v in costs} == set(VALIDITIES)


def test_the_drawn_tree_of_errors_is_complete():
    drawn = set(re.findall(r"(\w+)(?: {2,}|\n)", errors.__doc__ or ""))
    assert {
        c.__name__ for c in family(errors.DefrayError) if c.__module__ == "defray.errors"
    } <= drawn


def test_what_is_told_of_overlapping_answers_is_so(tmp_path: Path):
    page = (DOCS / "overlap.md").read_text()
    asked = re.findall(r'^\$ defray ask \S+ \S+ "(.*)" --within (\d+)', page, re.M)
    (name,) = re.findall(r"^\$ defray explain \S+ \S+ (\d+)$", page, re.M)
    for file in ("contract.toml", "randhie.parquet"):
        (tmp_path / file).write_bytes((resources.files("defray.example") / file).read_bytes())
    with defray.open(tmp_path / "contract.toml") as session:
        answers = [session.ask(sql, within=within) for sql, within in asked]
        told, by = session.explain(name), session.balance(by="age")["by"]["values"]
        assert session.audit().ok
    for answer in answers[3:5]:
        assert f"charged {rho(answer.charged_rho)} rho, credited {rho(answer.reused_rho)}" in page
    assert (
        f"{told['paid_before']:.0%} of this answer was already paid by releases "
        f"{', '.join(told['paid_by'][:-1])} and {told['paid_by'][-1]}: it charged "
        f"{rho(told['charged_rho'])} rho in place of {rho(told['from_scratch_rho'])} rho"
    ).replace("%", " %") in page
    assert f"the balance fell by {rho(told['regions']['rose_rho'])}" in page
    for run in by[:-1]:
        assert f" {run['from']} .. {run['to']} " in page
