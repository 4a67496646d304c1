"""What an ask writes into the ledger: releases, moves of its analyst's shadow, an answer under a key."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from defray.charged import paid_by
from defray.controller.ask import Ask
from defray.controller.plan import Step
from defray.controller.purchase import Purchase
from defray.controller.scarcity import Moment
from defray.controller.sharing import Decision
from defray.core.answer import Answer
from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.core.principals import Caller
from defray.errors import BadInput
from defray.ledger.beside import KeptAnswer
from defray.ledger.records import Release
from defray.ledger.store import Transaction, View

if TYPE_CHECKING:
    from defray.support.drawn import Drawn


@dataclass(frozen=True, slots=True)
class Record:
    """The entries of one ask, named ``name``, in one transaction; ``by`` is the analyst who pays."""

    contract: Contract
    ask: Ask
    tx: Transaction
    name: str
    by: str | None = None

    def release(
        self, purchase: Purchase, values: tuple[int | None, ...], drawn: Drawn | None = None
    ) -> Release:
        """A release as it is logged."""
        ask, contract = self.ask, self.contract
        block = ask.compiled.blocks[purchase.block]
        note: dict[str, Any] = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}
        if purchase.given:
            note["given"] = True
        if self.by is not None:
            note["by"] = self.by
        if ask.tag:
            note["confirm"] = ask.tag
        if drawn is not None:
            note["aim"] = drawn.aim.hex()
        names, epoch = contract.domain.names, self.tx.epoch
        attributes = block.attributes if drawn is None else tuple(names[c] for c in drawn.columns)
        made = Release(
            version=0 if epoch is None else epoch.counter,
            purse=purchase.purse,
            attributes=attributes,
            measure=str(block.measure),
            weights=block.weights if drawn is None else drawn.weights,
            unit=block.unit,
            step=purchase.bits if drawn is None else drawn.bits,
            reach=block.reach,
            values=values,
            sigmas=purchase.sigmas if drawn is None else (drawn.sigma,),
            precisions=purchase.precisions if drawn is None else (drawn.precision,),
            charge=purchase.charge if drawn is None else drawn.charge,
            question=ask.text,
            ask=self.name,
            keys=block.functionals if drawn is None else (),
            note=note,
            by_cell=contract.support == "linear",
        )
        if not made.by_cell:
            return made
        return replace(made, paid=paid_by(made, contract.domain, contract.rho))

    def append(self, made: Sequence[Release], step: Step, views: Sequence[Any]) -> None:
        """A step's releases.  The last of a final step claims what is met from then on."""
        for release in made[:-1]:
            self.tx.append(release)
        self.tx.append(self._settling(made[-1], step, views) if step.final else made[-1])

    def _settling(self, release: Release, step: Step, views: Sequence[Any]) -> Release:
        """The release after which every absolute target of a count or a sum is met: that is claimed, and an
        audit derives it again under the same public numbers."""
        contract, note = self.contract, {**release.note, "met": True}
        if contract.n_max is not None:
            note["n_max"] = contract.n_max
        if contract.m_floor is not None:
            note["m_floor"] = str(contract.m_floor)
        if views:
            note["views"] = list(views)
        return replace(release, settles=step.settles, note=note)

    def move(self, decision: Decision) -> None:
        """What the analyst who asks would have bought alone: releases without values, and what comes back to
        those who paid for what they reach."""
        for i, move in enumerate(decision.moves):
            purchase = Purchase(
                self.ask.compiled.blocks.index(move.block),
                move.bits,
                move.sigmas,
                move.precisions,
                (move.charge,),
                move.purse,
            )
            if move.drawn is None:
                values = tuple(None if sigma is None else 0 for sigma in move.sigmas)
            else:
                values = (0,) * len(move.drawn.scales)
            made = self.release(purchase, values, move.drawn)
            back = None if decision.back is None else decision.back[i]
            self.tx.append(replace(made, alone=True, back=back))


def views_noted(ask: Ask, moment: Moment, domain: Domain) -> list[Any]:
    """The views that an analyst is answered from alone, where others are not: the log names them, so that
    an audit can look there as well."""
    overlap = moment.overlap
    if overlap is None or overlap.alone is None:
        return []
    found = [
        axes
        for block in ask.compiled.blocks
        for axes in overlap.alone.views(block)
        if axes not in overlap.views(block)
    ]
    return [
        [
            [domain.names[c] for c in axes.columns],
            [None if s is None else list(s) for s in axes.starts],
        ]
        for axes in dict.fromkeys(found)
    ]


def kept_answer(view: View, caller: Caller | None) -> Answer | None:
    """The answer that is kept for a request.  BadInput where another request has its key."""
    if caller is None or caller.key is None:
        return None
    kept = view.answered(caller.name, caller.key)
    if kept is None:
        return None
    request, document = kept
    if request != caller.request:
        raise BadInput(
            "this idempotency key (Idempotency-Key) was used for another request",
            hint="use a new key for a new ask",
        )
    return Answer.from_dict(json.loads(document))


def keep_answer(tx: Transaction, caller: Caller | None, answer: Answer) -> None:
    """Keep what was paid for, for whoever asks again with the same key."""
    if caller is not None and caller.key is not None:
        document = json.dumps(answer.to_dict())
        at = dt.datetime.now(dt.UTC).replace(microsecond=0)
        tx.keep_answer(KeptAnswer(caller.name, caller.key, caller.request, at, document))
