"""What is documented is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from defray import errors
from defray.core.amounts import QUANTA
from defray.core.validity import KINDS
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
    assert {v.partition("=")[0] for v in costs} == set(KINDS)


def test_the_drawn_tree_of_errors_is_complete():
    drawn = set(re.findall(r"(\w+)(?: {2,}|\n)", errors.__doc__ or ""))
    assert {
        c.__name__ for c in family(errors.DefrayError) if c.__module__ == "defray.errors"
    } <= drawn
