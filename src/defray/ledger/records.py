"""What the ledger remembers: entries of one append-only hash chain.

An entry's *body* is canonical JSON (sorted keys, no blanks, ASCII) and contains its ``seq`` and the
hash of its predecessor, so ``sha256(body)`` commits to the whole log before it.  Kinds:

* ``open``     the terms of the contract (first entry, once);
* ``epoch``    a data version: counter, keyed fingerprint, the declared domain;
* ``release``  one noisy measurement of a vector of linear functionals of the table;
* ``shadow``   a release that an analyst would have bought alone, with the own share: it bears no value, costs
  the contract nothing, and is kept to know what the analyst is guaranteed; where reuse is shared, it says
  what comes ``back`` to those who paid for what is used (:mod:`defray.ledger.transfers`);
* ``settled``  the targets of an ask that were met and depend on noisy values, as in ``settles``;
* ``arrival``  an ask that needed new budget, granted or not: what a scarce budget is paced by;
* ``principal``  somebody was added, suspended or resumed, or has another share
  (:class:`~defray.core.principals.Enrolment`);
* ``close``    the contract is ended; nothing may follow.

A release measures ``b_i . x + N(0, sigma_i^2)`` for i over its values.  Its ``weights`` say what ``b`` is,
by kind.  ``x`` counts rows (measure ``count``) or sums a column in whole units of its ``unit_step``
(``sum:COLUMN``; ``centred:COLUMN`` sums the distances from the middle of its bounds).

``{"kind": "region", "region": R, "group": [[column, level], ...]}``
    For every group in row-major order, the indicator of "in R and in that group", each with a sigma of its
    own.  ``attributes`` are the columns that make a difference to R or group it.
``{"kind": "residual", "atoms": [n_i, ...]}``
    The table ``t_A = kron_i (n_i I - 11') x_A`` of the attribute set A that ``attributes`` name, in the order
    of the domain (none: the total), whose columns have ``n_i > 1`` atoms; ``n_A`` values in row-major order.
    One sigma, in units of t_A, is that of all; the one precision is that of the residual ``t_A / n_A``, at
    most ``n_A^2 / sigma^2``.  A row in any cell moves the table by ``reach^2 prod n_i (n_i - 1)``, squared.
``{"kind": "cells", "classes": [[start, ...] or null, ...], "bits": g, "steps": [integer, ...]}``
    One functional ``b = steps * 2^-g`` on the product of classes of the attributes' atoms, row-major.  The
    classes of an attribute are consecutive runs of its atoms that begin at the starts (ascending, the first
    0); null: every atom is one.  A row moves it by ``reach b_c``; the charge is the dearest cell's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from defray.core.canonical import canonical as canonical
from defray.core.contract import PURSES as PURSES
from defray.core.contract import RELATION
from defray.core.contract import Purse as Purse
from defray.support.known import UNKNOWN as UNKNOWN
from defray.support.known import Known as Known

GENESIS = "0" * 64

Paid = tuple[tuple[tuple[int, ...], Any], ...]
"""What cells pay for a release: on attribute sets (ascending numbers of columns of the declared domain; none:
every cell) whole quanta for every cell of their product, row-major."""


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True, slots=True)
class Terms:
    """What binds a ledger to its contract for ever: the budget, the purses' caps in quanta (they sum to
    at most 2**50) and the privacy unit.  ``unit`` and ``relation`` are descriptive JSON."""

    rho: Fraction
    caps: Mapping[Purse, int]
    unit: Mapping[str, Any]
    relation: str = RELATION

    def to_json(self) -> dict[str, Any]:
        return {
            "rho": str(self.rho),
            "caps": dict(self.caps),
            "unit": dict(self.unit),
            "relation": self.relation,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Terms:
        return cls(Fraction(body["rho"]), body["caps"], body["unit"], body["relation"])


@dataclass(frozen=True, slots=True)
class Epoch:
    """One data version, as analysts may see it (a counter) and as the curator's ledger pins it.
    ``domain`` is the canonical JSON of the declared public domain; ``fingerprint`` is keyed."""

    counter: int
    fingerprint: str
    domain: Any

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "epoch",
            "version": self.counter,
            "fingerprint": self.fingerprint,
            "domain": self.domain,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Epoch:
        return cls(body["version"], body["fingerprint"], body["domain"])


@dataclass(frozen=True, slots=True)
class Release:
    """One noisy measurement, complete but for its place in the chain.

    ``values[i] * 2**-step`` is the noisy functional i in units of ``unit``; ``sigmas[i]`` is the standard
    deviation really drawn, in the same units; ``precisions[i] <= 1/sigmas[i]**2`` is dyadic.  All three
    hold None for cells that were not measured.  ``reach`` is k * Delta in units: the charge, in quanta of
    the contract, covers ``max_i reach**2 / (2 sigmas[i]**2)``.  ``keys[i]`` identifies functional i (see
    :func:`defray.query.descriptor.key`); keys are derived from the rest and not stored in the body.
    ``settles`` are the targets depending on noisy values that this release met, as (key, share, gamma):
    they fold into the ``promises`` of that key, so that asked again they are free.  ``question`` is the
    canonical SQL of the ask it was bought for; ``ask`` groups releases of one ask.  A ``confirm`` in the
    note is the tag of the confirmation that it was made for alone, under which it is kept as well.

    Only regions have ``keys``; what other kinds say of a functional is not folded by the ledger.

    Every cell of the domain pays the charge, unless the release is charged ``by_cell``: then ``paid`` says
    what each pays, the dearest of them the charge.  Like keys, it is derived from the rest and not stored.

    ``back``, of a shadow's alone: the quanta that the account of its analyst gives to those who paid for what
    the shadow reaches, by name (None: reuse was not shared then).
    """

    version: int
    purse: Purse
    attributes: tuple[str, ...]
    measure: str
    weights: Mapping[str, Any]
    unit: Fraction
    step: int
    reach: Fraction
    values: tuple[int | None, ...]
    sigmas: tuple[float | None, ...]
    precisions: tuple[Fraction | None, ...]
    charge: int
    question: str
    ask: str
    keys: tuple[bytes, ...] = field(repr=False)
    settles: tuple[tuple[bytes, Fraction, Fraction], ...] = ()
    note: Mapping[str, Any] = field(default_factory=dict)
    by_cell: bool = False
    alone: bool = False
    back: Mapping[str, int] | None = None
    paid: Paid = field(default=(), repr=False, compare=False)

    @property
    def tag(self) -> str | None:
        tag: str | None = self.note.get("confirm")
        return tag

    @property
    def by(self) -> str | None:
        """The analyst whom it was bought for."""
        name: str | None = self.note.get("by")
        return name

    @property
    def reuse(self) -> int:
        """What the analyst's account gives for what others paid, in quanta."""
        return sum((self.back or {}).values())

    @property
    def accounts(self) -> tuple[str, ...]:
        """Whose cells pay for it: the purse's, and the analyst's own; of a shadow those of the shadow
        alone."""
        if self.by is None:
            return () if self.alone else (self.purse,)
        own = account_of(self.purse, self.by, alone=self.alone)
        return (own,) if self.alone else (self.purse, own)

    @property
    def pays(self) -> Paid:
        """What is paid where."""
        return self.paid if self.by_cell else (((), self.charge),)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "shadow" if self.alone else "release",
            "version": self.version,
            "purse": self.purse,
            "attributes": list(self.attributes),
            "measure": self.measure,
            "weights": dict(self.weights),
            "unit": str(self.unit),
            "step": self.step,
            "reach": str(self.reach),
            "value": list(self.values),
            "sigma": [None if s is None else s.hex() for s in self.sigmas],
            "precision": [None if p is None else str(p) for p in self.precisions],
            "charge": self.charge,
            "descriptor": self.question,
            "ask": self.ask,
            "settles": [[k.hex(), str(share), str(gamma)] for k, share, gamma in self.settles],
            "note": dict(self.note),
            **({"by_cell": True} if self.by_cell else {}),
            **({} if self.back is None else {"back": dict(self.back)}),
        }

    @classmethod
    def from_json(
        cls, body: Mapping[str, Any], keys: tuple[bytes, ...] = (), paid: Paid = ()
    ) -> Release:
        return cls(
            version=body["version"],
            purse=body["purse"],
            attributes=tuple(body["attributes"]),
            measure=body["measure"],
            weights=body["weights"],
            unit=Fraction(body["unit"]),
            step=body["step"],
            reach=Fraction(body["reach"]),
            values=tuple(body["value"]),
            sigmas=tuple(None if s is None else float.fromhex(s) for s in body["sigma"]),
            precisions=tuple(None if p is None else Fraction(p) for p in body["precision"]),
            charge=body["charge"],
            question=body["descriptor"],
            ask=body["ask"],
            keys=keys,
            settles=tuple(
                (bytes.fromhex(k), Fraction(s), Fraction(g)) for k, s, g in body["settles"]
            ),
            note=body["note"],
            by_cell=body.get("by_cell", False),
            alone=body["kind"] == "shadow",
            back=None if body.get("back") is None else dict(body["back"]),
            paid=paid,
        )


def account_of(purse: str, name: str, *, alone: bool = False) -> str:
    """What cells have paid from a purse for an analyst, or for the analyst's shadow."""
    return f"{purse}/{name}/alone" if alone else f"{purse}/{name}"


def is_analysts(account: str) -> bool:
    """Whether that is an analyst's account: no purse, shadow or tally."""
    return account.count("/") == 1


def tally_of(purse: str, name: str, kind: Literal["reuse", "back"]) -> str:
    """All that an analyst's account ever gave for reuse, or that came back to it."""
    return f"{purse}/{name}/{kind}"


@dataclass(frozen=True, slots=True)
class Settled:
    """The targets of an ``ask`` that were met and are remembered, as in :attr:`Release.settles`."""

    ask: str
    settles: tuple[tuple[bytes, Fraction, Fraction], ...]

    def to_json(self) -> dict[str, Any]:
        marks = [[k.hex(), str(share), str(gamma)] for k, share, gamma in self.settles]
        return {"kind": "settled", "ask": self.ask, "settles": marks}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Settled:
        marks = ((bytes.fromhex(k), Fraction(s), Fraction(g)) for k, s, g in body["settles"])
        return cls(body["ask"], tuple(marks))


@dataclass(frozen=True, slots=True)
class Arrival:
    """An ask that needed new budget, as its policy saw it: the ``number`` of arrivals with it, the
    ``residual`` it needed and the part ``granted`` (rho), its ``weight``, its ``influence`` (QIF; None: no
    diagnostic) and the ``price`` that follows.  ``mark`` is the question's: one question with one accuracy
    arrives once in a data version, however often it is asked.  Nothing in it depends on uncharged data."""

    number: int
    mark: bytes
    residual: float
    granted: float
    weight: float
    price: float
    influence: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "arrival",
            "number": self.number,
            "mark": self.mark.hex(),
            "residual": self.residual.hex(),
            "granted": self.granted.hex(),
            "weight": self.weight.hex(),
            "price": self.price.hex(),
            "influence": None if self.influence is None else self.influence.hex(),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Arrival:
        influence = body["influence"]
        return cls(
            number=body["number"],
            mark=bytes.fromhex(body["mark"]),
            residual=float.fromhex(body["residual"]),
            granted=float.fromhex(body["granted"]),
            weight=float.fromhex(body["weight"]),
            price=float.fromhex(body["price"]),
            influence=None if influence is None else float.fromhex(influence),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored entry: its body exactly as hashed, and the hash."""

    seq: int
    body: bytes
    hash: str

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)
        return data

    @classmethod
    def chained(cls, body: Mapping[str, Any], seq: int, prev: str) -> Entry:
        """The entry of ``body`` at place ``seq`` after the entry of hash ``prev``."""
        spelled = canonical({**body, "seq": seq, "prev": prev})
        return cls(seq, spelled, digest(spelled))
