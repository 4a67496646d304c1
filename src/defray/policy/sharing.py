"""Several analysts, one budget: shadow-guaranteed residual sharing, for exact support.

Every analyst a has a share s_a of the budget, an account B_a and a **shadow**: the account B0_a and the
support H0_a(q) that a would have alone, with that share and those asks.  The public support H(q) is all that
was ever released of the functional q.  An ask of ``rho_min`` for q settles so (:func:`settle`):

1. The shadow pays ``pay0 = alone(rho_min - H0_a(q), B0_a)``.  The guaranteed level is ``L = H0_a(q) + pay0``.
2. With ``sharing = "shapley"``, a joins the payers of what exists of (H0_a(q), L]: of a slice with k payers
   it pays 1/(k+1), which goes back to the k, so that all have paid alike (the Shapley value of Littlechild
   and Owen's airport game).  Accounts move; the privacy charge does not.
3. One release raises H(q) to L, and from there towards ``rho_min`` only as savings ``B_a - B0_a`` last:
   never (``surplus = "none"``), as far as they go (``partial``), or if they reach it (``allornothing``).

After every event, whatever the options, exactly:

* **I1** what was spent, all accounts and the unassigned reserve add up to the budget.
* **I2** ``B_a >= B0_a >= 0``: of (H0_a, L], which the shadow pays in full, a pays at most all, once; the rest
  comes from savings; and being joined by others only pays back.
* **I3** ``H(q) >= H0_a(q)``, and **I4** an ask ends with no less than L, what a would have had alone.
* **I5** L follows from a's own share and asks: nobody else can move it.
* **I6** one more analyst with an own share leaves no ask of the others with less, if the rule is
  :attr:`Rule.non_interfering`.
* **I7** where all could have been served alone, the budget spent is ``sum_q max(rho_min)``.

Shares may change at any time (:meth:`Pool.assigned`): account and shadow move by the same amount, out of the
reserve or back into it, so savings stay.  No more comes back than the shadow holds: B_a may hold savings,
which others made possible, and I5 would not survive them.  Who is suspended does not ask; the account stays
and is paid back when others join.  On a new version of the data, ``held`` starts empty and accounts go on.

Amounts of rho are all Fractions, which is exact, or all integers (the ledger's quanta), and stay so
(:mod:`defray.policy.slices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from defray.errors import BadInput
from defray.policy.slices import Amount as Amount
from defray.policy.slices import Slice as Slice
from defray.policy.slices import joined

SHARING: Final = ("none", "shapley")
"""Whether those who use what others paid for pay them a part of it."""

SURPLUS: Final[Mapping[str, Callable[[Amount, Amount, Amount], Amount]]] = {
    "none": lambda guaranteed, wanted, savings: guaranteed,
    "partial": lambda guaranteed, wanted, savings: min(wanted, savings),
    "allornothing": lambda guaranteed, wanted, savings: wanted if wanted <= savings else guaranteed,
}
"""What is released, from what is ``guaranteed`` (never more than the savings) up to what is ``wanted``."""

ALONE: Final[Mapping[str, Callable[[Amount, Amount], Amount]]] = {
    "refuse": lambda gap, balance: gap if gap <= balance else 0,
    "greedy": min,
}
"""What an analyst alone would pay for a gap: as the gates of these names."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The options, public and the same for all."""

    sharing: str = "shapley"
    surplus: str = "allornothing"
    alone: str = "refuse"

    def __post_init__(self) -> None:
        for name, known in (("sharing", SHARING), ("surplus", SURPLUS), ("alone", ALONE)):
            if (given := getattr(self, name)) not in known:
                raise BadInput(f"no {name} called {given!r}", hint=f"Choose {' or '.join(known)}.")

    @property
    def non_interfering(self) -> bool:
        """Whether I6 holds: savings are not spent, or grow with whatever others release."""
        return self.surplus == "none" or (self.sharing, self.surplus) == ("none", "partial")


@dataclass(frozen=True, slots=True)
class Held:
    """One functional: its public support H(q), in slices from 0 upwards, and each shadow's own, H0_a(q)."""

    slices: tuple[Slice, ...] = ()
    own: Mapping[str, Amount] = field(default_factory=dict)

    @property
    def support(self) -> Amount:
        return sum(piece.width for piece in self.slices)


@dataclass(frozen=True, slots=True)
class Account:
    """An analyst's share of the budget, the ``balance`` B_a left of it, and its shadow's, B0_a."""

    share: Fraction
    balance: Amount
    shadow: Amount

    @property
    def savings(self) -> Amount:
        """What others' releases have saved, and were paid back, beyond what alone would be left."""
        return self.balance - self.shadow


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one ask moves.

    The shadow pays ``shadow_pays`` and reaches ``level``.  ``transfers`` are what accounts gain from reuse
    (less than 0: the analyst's who asks; 0 in all).  ``release`` is charged to the budget and to the analyst.
    The functional is then ``held``.
    """

    analyst: str
    shadow_pays: Amount
    level: Amount
    transfers: Mapping[str, Amount]
    release: Amount
    held: Held

    def after(self, name: str, account: Account) -> Account:
        """The account of that analyst afterwards."""
        balance = account.balance + self.transfers.get(name, 0)
        if name != self.analyst:
            return replace(account, balance=balance)
        return Account(account.share, balance - self.release, account.shadow - self.shadow_pays)


def settle(rule: Rule, held: Held, analyst: str, account: Account, rho_min: Amount) -> Settlement:
    """What an analyst's ask for support ``rho_min`` of one functional moves.

    >>> held = Held((Slice(Fraction(4), ("ann",)),), {"ann": Fraction(4)})
    >>> bob = Account(Fraction(1, 2), Fraction(10), Fraction(10))
    >>> found = settle(Rule(), held, "bob", bob, Fraction(5))
    >>> [f"{who} {gain}" for who, gain in found.transfers.items()], str(found.release)
    (['ann 2', 'bob -2'], '1')
    """
    own, support = held.own.get(analyst, 0), held.support
    shadow_pays = ALONE[rule.alone](max(0, rho_min - own), account.shadow)
    level = own + shadow_pays
    reused = level if rule.sharing == "shapley" else own
    slices, transfers = joined(held.slices, analyst, own, reused)
    savings = account.savings + shadow_pays + transfers.get(analyst, 0)
    release = SURPLUS[rule.surplus](max(0, level - support), max(0, rho_min - support), savings)
    if release:
        slices = (*slices, Slice(release, (analyst,)))
    held = Held(slices, {**held.own, analyst: level})
    return Settlement(analyst, shadow_pays, level, transfers, release, held)


@dataclass(frozen=True, slots=True)
class Pool:
    """All accounts on a budget of ``total`` and all that is held: a fold of assignments and settlements."""

    total: Amount
    accounts: Mapping[str, Account] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)

    @property
    def reserve(self) -> Amount:
        """What belongs to nobody yet."""
        return self.total - sum(self._part(each.share) for each in self.accounts.values())

    def _part(self, share: Fraction) -> Amount:
        part = share * self.total
        return math.floor(part) if isinstance(self.total, int) else part

    def assigned(self, analyst: str, share: Fraction) -> Pool:
        """With that share for an analyst, new or known.

        Raises BadInput where shares would come to more than 1, or where the analyst, alone, would have spent
        more than the new share is worth.
        """
        known = self.accounts.get(analyst, Account(Fraction(0), 0, 0))
        free = 1 + known.share - sum(each.share for each in self.accounts.values())
        if not 0 <= share <= free:
            raise BadInput(
                f"a share of {share} for {analyst!r} is not in the reserve",
                hint=f"Choose from 0 to {free}, or lower another share first.",
            )
        change = self._part(share) - self._part(known.share)
        if known.shadow + change < 0:
            least = known.share - Fraction(known.shadow) / self.total
            raise BadInput(
                f"{analyst!r} has spent more than a share of {share}",
                hint=f"Choose at least {least}.",
            )
        account = Account(share, known.balance + change, known.shadow + change)
        return replace(self, accounts={**self.accounts, analyst: account})

    def settle(self, rule: Rule, analyst: str, functional: str, rho_min: Amount) -> Settlement:
        """What this ask would move.  Raises BadInput for an analyst without an account."""
        if analyst not in self.accounts:
            raise BadInput(f"no account for {analyst!r}", hint="Assign a share first.")
        held = self.held.get(functional, Held())
        return settle(rule, held, analyst, self.accounts[analyst], rho_min)

    def after(self, functional: str, settlement: Settlement) -> Pool:
        """Once a settlement for that functional was made."""
        touched = {settlement.analyst, *settlement.transfers}
        changed = {name: settlement.after(name, self.accounts[name]) for name in touched}
        return replace(
            self,
            accounts={**self.accounts, **changed},
            held={**self.held, functional: settlement.held},
        )
