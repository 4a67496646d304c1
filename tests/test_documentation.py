"""What is documented is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from defray import errors

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


def test_the_drawn_tree_of_errors_is_complete():
    drawn = set(re.findall(r"(\w+)(?: {2,}|\n)", errors.__doc__ or ""))
    assert {
        c.__name__ for c in family(errors.DefrayError) if c.__module__ == "defray.errors"
    } <= drawn
