"""What an analyst with a share stands on at one moment: the account, the shadow, and what others may not
touch.

An analyst's *account* is what every cell has paid for the analyst, of the share's part of each purse.  The
*shadow* is what would be known and paid if nobody else had ever asked; its releases bear no values and are
in the log.  What asks of nobody in particular (the curator's, or a local session's) may pay is what no
share holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING

from defray.controller.ask import Ask, Held
from defray.controller.scarcity import Moment
from defray.controller.share import Share
from defray.core.amounts import rho_of
from defray.core.contract import PURSES, Contract, Purse
from defray.core.principals import Principal, Principals
from defray.entitled import caps_of, unassigned_caps, unassigned_charges
from defray.errors import ContractError, Forbidden, Problem
from defray.ledger.records import Terms, account_of
from defray.ledger.store import View
from defray.policy.stakes import Stakes
from defray.query.region import Regions
from defray.stakes import Payers
from defray.support.known import UNKNOWN, alone

if TYPE_CHECKING:
    from defray.support.charges import Charges
    from defray.support.history import History
    from defray.support.overlap import Overlap
    from defray.support.room import Room

SHARED_GATES = ("refuse", "greedy")
"""The gates under which a budget can be shared: others look at the arrivals of all."""


class Shadows:
    """What each analyst would know alone in one data version, decoded as the log grows.  Safe to share
    between threads."""

    def __init__(self, version: int, contract: Contract) -> None:
        self.version = version
        self._contract = contract
        self._regions = Regions(contract.domain.widths)
        self._histories: dict[str, History] = {}
        self._read = 0
        self._lock = Lock()

    def read(self, view: View, name: str, *, exists: bool) -> History:
        """An analyst's own history; in a transaction with its own releases, which others do not see."""
        from defray.past import appended, history_of, item_of

        with self._lock:
            nothing = history_of(replace(self._contract, promises=()), self._regions)
            if not exists:
                return nothing
            news = view.shadows(self._read)
            histories = dict(self._histories)
            for owner in {release.by or "" for _, release in news}:
                history = histories.get(owner, nothing).branch()
                history.add(
                    item_of(seq, release, self._contract.domain, self._regions)
                    for seq, release in news
                    if release.by == owner
                )
                histories[owner] = history
            if news and not appended(view):
                self._histories, self._read = histories, news[-1][0]
            return histories.setdefault(name, nothing)


def check_sharing(contract: Contract, principals: Principals) -> None:
    """Raises ContractError where a contract's budget cannot be shared as its ledger says it is."""
    if principals.assigned:
        check_shareable(contract)


def check_shareable(contract: Contract) -> None:
    """Raises ContractError where no analyst can have a share of a contract's budget."""
    if contract.promises:
        cure = "remove [[promise]], or set all shares to 0: defray analyst share NAME 0"
        message = "a budget that analysts have shares of cannot hold promises back as well"
        raise ContractError([Problem("promise", message, cure)], path=str(contract.path or ""))
    if contract.gate not in SHARED_GATES:
        cure = 'gate = "refuse" or "greedy"; or set all shares to 0'
        message = f"the gate {contract.gate} cannot share a budget out between analysts"
        raise ContractError([Problem("gate", message, cure)], path=str(contract.path or ""))


class Shares:
    """How a contract's budget is shared, as its asks see it.  Safe to share between threads."""

    def __init__(self, contract: Contract, terms: Terms) -> None:
        self._contract = contract
        self._terms = terms
        self._shadows: Shadows | None = None
        self._payers: Payers | None = None

    def owner(self, view: View, name: str | None) -> Principal | None:
        """The analyst who asks; None for a curator, and for nobody in particular.  Raises Forbidden for one
        who is not known or suspended, ContractError where the contract cannot be shared."""
        principals = view.principals()
        check_sharing(self._contract, principals)
        if name is None:
            return None
        principal = principals.get(name)
        if principal is None or not principal.active:
            hint = "the curator can add or resume analysts"
            raise Forbidden(f"{name:.80} may not ask now", hint=hint)
        return None if principal.share is None else principal

    def left(self, view: View, owner: Principal | None) -> dict[Purse, int]:
        """What is left of each purse, where every cell pays alike: of an analyst's part, or of what no share
        holds."""
        if owner is not None:
            caps = caps_of(self._terms, owner)
            return {p: max(caps[p] - view.spent(account_of(p, owner.name)), 0) for p in PURSES}
        if not view.principals().assigned:
            return {p: self._terms.caps[p] - view.spent(p) for p in PURSES}
        caps, paid = unassigned_caps(self._terms, view), unassigned_charges(self._terms, view)
        return {p: max(caps[p] - paid[p].worst(), 0) for p in PURSES}

    def room(self, room: Room, view: View, owner: Principal | None, *, exists: bool) -> Room:
        """The same by cell; ``room`` is that of the whole contract."""
        from defray.support.room import Room

        if owner is not None:
            paid, _ = accounts(view, self._contract, owner.name, exists=exists)
            return Room(paid, caps_of(self._terms, owner))
        if not view.principals().assigned:
            return room
        paid, caps = unassigned_charges(self._terms, view), unassigned_caps(self._terms, view)
        if not exists:
            paid = {p: of_any_cell(charges, self._contract) for p, charges in paid.items()}
        return Room(paid, caps)

    def of_nobody(self, moment: Moment, view: View) -> Moment:
        """A moment of an ask that no analyst's share pays for."""
        if not view.principals().assigned:
            return moment
        cap = rho_of(unassigned_caps(self._terms, view)["answer"], self._terms.rho)
        return replace(moment, scarcity=replace(moment.scarcity, cap=cap), reserve=True)

    def shadow(self, overlap: Overlap, view: View, version: int, owner: Principal) -> Overlap:
        """What an analyst would know and may pay alone."""
        from defray.support.room import Room

        shadows = self._shadows
        if shadows is None or shadows.version != version:
            shadows = self._shadows = Shadows(version, self._contract)
        exists = view.epoch is not None and view.epoch.counter == version
        history = shadows.read(view, owner.name, exists=exists)
        _, bound = accounts(view, self._contract, owner.name, exists=exists)
        room = Room(bound, caps_of(self._terms, owner))
        return replace(overlap, history=history, room=room, scanned=None, kept=0, alone=None)

    def share(
        self,
        view: View,
        ask: Ask,
        owner: Principal,
        moment: Moment,
        shadow: Overlap | None,
    ) -> Share:
        """The share of an analyst who asks, at this moment."""
        contract = self._contract
        exists = view.epoch is not None and view.epoch.counter == moment.version
        paid, bound = accounts(view, contract, owner.name, exists=exists)
        caps = caps_of(self._terms, owner)
        keys = [alone(key, owner.name) for key in ask.compiled.keys]
        found = view.known(keys) if exists else [UNKNOWN] * len(keys)
        cells = len(ask.compiled.cells)
        known = [found[i * cells : (i + 1) * cells] for i in range(len(ask.compiled.blocks))]
        held = Held(known, moment.held.marks)
        if shadow is not None and moment.held.overlap is not None:
            held = held.with_overlap(ask.compiled, shadow)
        if shadow is None:
            left = {purse: caps[purse] - bound[purse].worst() for purse in PURSES}
        else:
            left = shadow.answerable(ask.compiled.blocks)
        funds = replace(moment.funds, ceiling=None, charged=Fraction(0))
        funds = funds.leaving({p: rho_of(left[p], contract.rho) for p in PURSES})
        scarcity = replace(moment.scarcity, cap=rho_of(caps["answer"], contract.rho))
        there = replace(
            moment,
            held=_valued(held, moment.held),
            funds=funds,
            scarcity=scarcity,
            overlap=shadow,
        )
        stakes = self._stakes(view, moment.version, exists=exists)
        return Share(owner.name, contract.surplus, there, paid, bound, stakes)

    def _stakes(self, view: View, version: int, *, exists: bool) -> Stakes | None:
        """Who paid for what, where that matters."""
        if self._contract.sharing == "none" or self._contract.support != "exact":
            return None
        payers = self._payers
        if payers is None or payers.version != version:
            payers = self._payers = Payers(version, self._contract)
        return payers.read(view, exists=exists)


def accounts(
    view: View, contract: Contract, name: str, *, exists: bool
) -> tuple[Mapping[Purse, Charges], Mapping[Purse, Charges]]:
    """What every cell has paid for an analyst, and for the shadow.  Of a data version that is still to be
    opened every cell has paid what the dearest had: a row may have moved anywhere."""

    def of(purse: Purse, *, alone: bool) -> Charges:
        charges = view.charges(account_of(purse, name, alone=alone))
        return charges if exists else of_any_cell(charges, contract)

    return (
        {purse: of(purse, alone=False) for purse in PURSES},
        {purse: of(purse, alone=True) for purse in PURSES},
    )


def of_any_cell(charges: Charges, contract: Contract) -> Charges:
    """What every cell has paid once a row may have moved anywhere."""
    return type(charges).of(contract.domain).plus([((), charges.worst())])


def _valued(own: Held, public: Held) -> Held:
    """What a shadow knows has no values: those that all know stand for them, where prices depend on
    values."""
    known = [
        [
            replace(k, weighted=k.precision * p.value if p.precision else Fraction(0))
            for k, p in zip(row, others, strict=True)
        ]
        for row, others in zip(own.known, public.known, strict=True)
    ]
    return replace(own, known=known)
