"""What a share of a contract entitles an analyst to, and what of it was used: quanta of a ledger's purses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from defray.core.amounts import rho_of
from defray.core.contract import PURSES, Purse
from defray.core.principals import Principal
from defray.errors import BadInput
from defray.ledger.records import Terms, account_of
from defray.ledger.store import View

if TYPE_CHECKING:
    from defray.support.charges import Added


def caps_of(terms: Terms, principal: Principal) -> dict[Purse, int]:
    """The part of each purse that is an analyst's."""
    share = principal.share or Fraction(0)
    return {purse: math.floor(terms.caps[purse] * share) for purse in PURSES}


def held_back(terms: Terms, view: View) -> dict[Purse, list[Added]]:
    """What of each purse analysts have not used of their shares, as charges that nobody else may take."""
    found: dict[Purse, list[Added]] = {purse: [] for purse in PURSES}
    for principal in view.principals().values():
        for purse, cap in caps_of(terms, principal).items():
            if cap:
                paid = view.charges(account_of(purse, principal.name))
                most = {columns: int(quanta.max()) for columns, quanta in paid.sets().items()}
                rest = cap - paid.everywhere - sum(most.values())
                found[purse].append(((), max(rest, 0)))
                found[purse] += [(c, most[c] - quanta) for c, quanta in paid.sets().items()]
    return found


def check_share(terms: Terms, view: View, principal: Principal) -> None:
    """Raises BadInput where an analyst's share, once it is given, takes what others hold or was spent, or
    is less than what its analyst would have used alone."""
    share, cap = principal.share or Fraction(0), terms.caps["answer"]
    taken = view.charges("answer").plus(held_back(terms, view)["answer"]).worst()
    if taken > cap:
        left = max(share - Fraction(taken - cap, cap), Fraction(0))
        raise BadInput(
            f"a share of {float(share):g} is not left: at most {float(left):.6g}, since the rest was spent",
            hint="give less, or lower another share first",
        )
    for purse, part in caps_of(terms, principal).items():
        used = view.spent(account_of(purse, principal.name, alone=True))
        if used > part:
            raise BadInput(
                f"{principal.name} has used {used / terms.caps[purse]:.6g} of the budget already",
                hint="a share can be lowered to what was used of it, and no further",
            )


def account_told(terms: Terms, view: View, principal: Principal) -> dict[str, Any] | None:
    """An analyst's account for answers, for machines; None for a curator.  ``remaining_rho`` is what its
    dearest cell has left; ``alone_rho`` what the share would have spent alone; ``saved_rho`` how much less
    was paid."""
    if principal.share is None:
        return None
    cap = caps_of(terms, principal)["answer"]
    paid = view.spent(account_of("answer", principal.name))
    bound = view.spent(account_of("answer", principal.name, alone=True))
    return {
        "name": principal.name,
        "active": principal.active,
        "share": float(principal.share),
        "cap_rho": float(rho_of(cap, terms.rho)),
        "spent_rho": float(rho_of(paid, terms.rho)),
        "remaining_rho": float(rho_of(max(cap - paid, 0), terms.rho)),
        "alone_rho": float(rho_of(bound, terms.rho)),
        "saved_rho": float(rho_of(max(bound - paid, 0), terms.rho)),
    }
