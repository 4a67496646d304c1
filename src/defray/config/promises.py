"""``[[promise]]``: classes of counts that are never refused."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Final, cast

from defray.config.fields import Section, shown
from defray.core.column import Column
from defray.core.contract import Promised, PromisedKind
from defray.core.domain import Domain
from defray.core.target import parse_confidence
from defray.errors import TargetError

KINDS: Final = ("ranges", "subsets", "cells")

MOST_CELLS: Final = 1024
"""The most cells that the columns of a promise may have together."""

LEAST_CONFIDENCE: Final = Fraction(1, 4)
"""Overlapping answers count for confidences from here on only."""

MOST: Final = 16
"""The most promises of a contract."""


LEAST: Final = Fraction(1, 10**6)
MOST_WITHIN: Final = Fraction(10**15)
"""Errors of counts that can be promised."""


def read_promises(top: Section, domain: Domain, support: str) -> tuple[Promised, ...]:
    """The promises in the order of the file, each mistake noted."""
    if "promise" not in top:
        return ()
    found: list[Promised] = []
    for section in top.tables("promise", "promise[]"):
        promised = _promise(section, domain)
        if promised is not None:
            found.append(promised)
    if support != "linear":
        cure = 'write support = "linear", or remove [[promise]]'
        top.problem("promise", "promises need overlapping answers to count for each other", cure)
    for i, promised in enumerate(found):
        if any(promised.columns == other.columns for other in found[:i]):
            cure = "keep one of them; a column may be in several promises with others"
            message = f"{', '.join(promised.columns)} is promised twice"
            top.problem("promise", message, cure, item=i)
    if len(found) > MOST:
        top.problem("promise", f"there are {len(found)} promises", f"make at most {MOST}")
    return tuple(found)


def _promise(section: Section, domain: Domain) -> Promised | None:
    names, within = section.names("columns"), section.number("within", positive=True)
    confidence = _confidence(section)
    if within is not None and not LEAST <= within <= MOST_WITHIN:
        section.problem("within", f"{shown(section.data['within'])} is out of range", "within = 50")
        return None
    for key in ("columns", "kind", "within"):
        if key not in section:
            section.problem(key, f"{key} is missing")
    columns = _columns(section, names or (), domain)
    kinds = _kinds(section, names or ())
    if not names or columns is None or kinds is None or within is None or confidence is None:
        return None
    if (cells := prod(c.width for c in columns)) > MOST_CELLS:
        sizes = " x ".join(f"{c.width:,}" for c in columns)
        cure = f"at most {MOST_CELLS:,}: promise fewer columns, or declare coarser ones"
        section.problem("columns", f"they have {sizes} = {cells:,} cells together", cure)
        return None
    for column, kind in zip(columns, kinds, strict=True):
        if kind == "ranges" and not column.ordered:
            cure = 'its values are a list: write kind = "subsets" or "cells"'
            section.problem("kind", f"{column.name} has no ranges", cure)
            return None
    order = sorted(range(len(names)), key=lambda i: domain.names.index(names[i]))
    return Promised(
        tuple(names[i] for i in order), tuple(kinds[i] for i in order), within, confidence
    )


def _columns(section: Section, names: Sequence[str], domain: Domain) -> list[Column] | None:
    unknown = [i for i, name in enumerate(names) if name not in domain.names]
    for i in unknown:
        cure = f"declare it, or name one of: {', '.join(domain.names)}"
        section.problem("columns", f"there is no column {names[i]}", cure, item=i)
    return None if unknown else [domain[name] for name in names]


def _kinds(section: Section, names: Sequence[str]) -> tuple[PromisedKind, ...] | None:
    if "kind" not in section:
        return None
    value = section.data["kind"]
    kinds = [value] * len(names) if isinstance(value, str) else value
    listed = ", ".join(f'"{k}"' for k in KINDS)
    if not isinstance(kinds, list) or any(k not in KINDS for k in kinds):
        section.problem(
            "kind", f"{shown(value)} is not a kind, or a list of them", f"one of {listed}"
        )
        return None
    if len(kinds) != len(names):
        message = f"{len(kinds)} kinds for {len(names)} columns"
        section.problem("kind", message, "one for each column, or one for all without brackets")
        return None
    return cast(tuple[PromisedKind, ...], tuple(kinds))


def _confidence(section: Section) -> Fraction | None:
    if "confidence" not in section:
        return Fraction(95, 100)
    try:
        confidence = parse_confidence(section.data["confidence"])
    except TargetError as error:
        section.problem("confidence", error.message)
        return None
    if confidence < LEAST_CONFIDENCE:
        message = f"{shown(section.data['confidence'])} is too little to promise"
        section.problem("confidence", message, "at least 25%; for one error it is the same promise")
        return None
    return confidence
