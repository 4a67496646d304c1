"""What the transcript says to an ask at one moment: its data version, what is held, what may be spent and
how the budget is paced; and how an ask is counted among the arrivals that pace it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.ask import Ask, Funds, Held
from defray.controller.scarcity import Moment, Ration, Scarcity
from defray.core.amounts import QUANTA, rho_of
from defray.core.contract import RELATION, Contract
from defray.errors import LedgerMismatch
from defray.ledger.records import Arrival, Purse, Terms
from defray.ledger.store import Ledger, Transaction, View
from defray.policy.choices import GATES
from defray.policy.demand import WINDOW, Pace
from defray.policy.weights import Weights
from defray.shares import Shares

if TYPE_CHECKING:
    from defray.past import Past
    from defray.support.axes import Axes
    from defray.support.overlap import Overlap

from defray.support.known import UNKNOWN

DEFAULT_PROBES = 1000
"""Diagnostics the purse is divided into where the contract declares no horizon."""

ALL_BUT = 1 - Fraction(1, 2**29)
"""So much less of the purse is divided, since every charge is rounded up."""

LEAST_CONFIDENCE = Fraction(1, 4)
"""Intervals of less confidence are so narrow that rounding in a view would show."""


def terms_of(contract: Contract) -> Terms:
    """What binds a ledger to a contract: budget, purses and privacy unit."""
    diagnostic = math.floor(contract.xi * QUANTA)
    return Terms(
        rho=contract.rho,
        caps={"answer": QUANTA - diagnostic, "diagnostic": diagnostic},
        unit=contract.unit.to_json(),
        relation=RELATION,
    )


def probe_of(contract: Contract) -> Fraction:
    """What one diagnostic costs, in rho."""
    return contract.xi * contract.rho * ALL_BUT / (contract.horizon or DEFAULT_PROBES)


class Transcript:
    """A contract's ledger as its asks see it.  Safe to share between threads."""

    def __init__(self, contract: Contract, ledger: Ledger) -> None:
        self._contract = contract
        self._ledger = ledger
        self._policy = GATES[contract.gate](contract.horizon)
        self._weights = _weights(contract) if self._policy.weighted and contract.xi else None
        self._pace = Pace([float(rho) for rho in contract.forecast])
        self._domain = contract.domain.to_json()
        self._linear = contract.support == "linear"
        self._past: Past | None = None
        self._shares = Shares(contract, ledger.terms)
        self.joined: int | None = None
        """The data version that this session has seen or opened."""

    def moment(
        self,
        ask: Ask,
        view: View,
        version: int,
        ceiling: Fraction | None = None,
        charged: int = 0,
        *,
        scanned: Collection[Axes] | None = None,
        name: str | None = None,
    ) -> Moment:
        """``charged`` quanta of the caller's ``ceiling`` are gone already; where ``scanned`` is given, no
        other views can be measured any more; ``name`` is the principal who asks (None: nobody in particular).

        Raises Forbidden where that is nobody who may ask now."""
        compiled = ask.compiled
        keys = [*compiled.keys, *ask.marks]
        if self._policy.paced:
            keys.append(ask.arrival)
        current = counter(view) == version
        found = view.known(keys) if current else [UNKNOWN] * len(keys)
        cells, blocks = len(compiled.cells), len(compiled.blocks)
        known = [found[b * cells : (b + 1) * cells] for b in range(blocks)]
        marks = dict(zip(ask.marks, found[len(compiled.keys) :], strict=False))
        scarcity = Scarcity(
            policy=self._policy,
            pace=self.pace(view),
            cap=rho_of(self._ledger.terms.caps["answer"], self._contract.rho),
            weights=self._weights,
            wanted=self._wanted(view, found[-1].last) if self._policy.paced else None,
        )
        held = Held(known, marks)
        overlap = self._overlap(view, version, scanned) if self._linear else None
        owner = self._shares.owner(view, name)
        shadow: Overlap | None = None
        if overlap is not None:
            overlap = replace(overlap, among=ask.among)
            if owner is not None:
                shadow = self._shares.shadow(overlap, view, version, owner)
            room = self._shares.room(overlap.room, view, owner, exists=current)
            overlap = replace(overlap, room=room, alone=shadow)
            if can_overlap(ask):
                held = held.with_overlap(compiled, overlap)
            answerable = overlap.answerable(compiled.blocks)
        else:
            answerable = self._shares.left(view, owner)
        funds = self._funds(answerable, ceiling, charged)
        moment = Moment(view.head, version, held, funds, scarcity, view.closed, overlap)
        if owner is None:
            return self._shares.of_nobody(moment, view)
        return replace(moment, share=self._shares.share(view, ask, owner, moment, shadow))

    def _overlap(self, view: View, version: int, scanned: Collection[Axes] | None) -> Overlap:
        """The releases of a data version as this moment sees them, and what each cell may still pay."""
        from defray.past import Past, overlap_of

        past = self._past
        if past is None or past.version != version:
            past = self._past = Past(version, self._contract)
        return overlap_of(self._contract, self._ledger.terms.caps, past, view, scanned)

    def _funds(
        self, answerable: Mapping[Purse, int], ceiling: Fraction | None, charged: int
    ) -> Funds:
        contract, total = self._contract, self._contract.rho

        def left(purse: Purse) -> Fraction:
            return rho_of(answerable[purse], total)

        return Funds(
            total=total,
            answer=left("answer"),
            diagnostic=left("diagnostic"),
            probe=probe_of(contract),
            ceiling=None if ceiling is None else ceiling - rho_of(charged, total),
            charged=rho_of(charged, total),
            m_floor=contract.m_floor,
            n_max=contract.n_max,
            weighs=self._weights is not None,
        )

    def left(self, view: View, name: str | None) -> Fraction:
        """What the dearest cell has left for answers, in rho, to whoever asks.  Raises Forbidden for who may
        not ask now."""
        owner = self._shares.owner(view, name)
        return rho_of(self._shares.left(view, owner)["answer"], self._contract.rho)

    def _wanted(self, view: View, seq: int) -> Fraction | None:
        """What the arrival of that seq needed; None if there is none."""
        return Fraction(view.arrival(seq).residual) if seq else None

    def pace(self, view: View) -> Pace:
        """The arrivals so far.  What is returned is not advanced by anyone."""
        if not self._policy.paced:
            return self._pace
        pace = self._pace
        news = view.arrivals(pace.arrivals, WINDOW)
        if not news:
            return pace
        if news[0].number == pace.arrivals + 1:
            pace = pace.copy()
        else:
            pace = Pace([float(rho) for rho in self._contract.forecast], news[0].number - 1)
        for arrival in news:
            pace.advance(arrival.residual, arrival.weight, arrival.price, arrival.influence)
        self._pace = pace
        return pace

    def version(self, view: View, fingerprint: str) -> int:
        """The data version that an ask belongs to: the newest, or (L12) the next one, to be opened by
        the first purchase, where the data or the declared domain is another."""
        epoch = view.epoch
        if epoch is None:
            return 1
        if epoch.domain != self._domain:
            if self.joined is not None and self.joined < epoch.counter:
                raise LedgerMismatch(
                    "the declared domain was changed in the contract file, and others use it already",
                    hint="open the contract again",
                )
            return epoch.counter + 1
        if epoch.fingerprint != fingerprint:
            return epoch.counter + 1
        self.joined = epoch.counter
        return epoch.counter

    def open_version(self, tx: Transaction, version: int, fingerprint: str) -> None:
        """Open a data version, if it is still to be opened."""
        if counter(tx) != version:
            tx.open_epoch(fingerprint, self._domain)

    def arrive(
        self, tx: Transaction, ask: Ask, moment: Moment, rationed: Ration, spent: int
    ) -> None:
        """Append an ask that needed new budget to the arrivals, by which the budget is paced, once;
        ``spent`` quanta of the answer purse were granted."""
        scarcity, grant = moment.scarcity, rationed.grant
        if grant is None or not scarcity.arriving:
            return
        granted = rho_of(min(spent, rationed.need), self._contract.rho)
        tx.arrive(
            Arrival(
                number=scarcity.pace.arrivals + 1,
                mark=ask.arrival,
                residual=float(grant.demand.residual),
                granted=float(granted),
                weight=grant.demand.weight,
                price=scarcity.after(grant.demand, granted),
                influence=grant.influence,
            )
        )


def can_overlap(ask: Ask) -> bool:
    """Whether other releases than the question's own may count: not where its looks are counted, nor for
    intervals so narrow that rounding would show."""
    return ask.validity.kind == "fixed" and ask.confidence >= LEAST_CONFIDENCE


def counter(view: View) -> int:
    """The newest data version; 0 before the first."""
    epoch = view.epoch
    return 0 if epoch is None else epoch.counter


def _weights(contract: Contract) -> Weights:
    return Weights(
        alpha=float(contract.weights.alpha),
        beta=float(contract.weights.beta),
        growth=contract.weights.g,
        floor=float(contract.m_floor or 1),
    )
