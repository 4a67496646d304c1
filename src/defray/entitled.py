"""What a share of a contract entitles an analyst to, and what of it was used: quanta of a ledger's purses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from defray.core.amounts import rho_of
from defray.core.contract import Purse
from defray.core.principals import Principal
from defray.errors import BadInput
from defray.ledger.records import Terms, account_of, tally_of
from defray.ledger.store import View

if TYPE_CHECKING:
    from defray.support.charges import Added, Charges


def caps_of(terms: Terms, principal: Principal) -> dict[Purse, int]:
    """The part of each purse that is an analyst's."""
    share = principal.share or Fraction(0)
    return {purse: math.floor(cap * share) for purse, cap in terms.caps.items()}


def unassigned_caps(terms: Terms, view: View) -> dict[Purse, int]:
    """The part of each purse that is no analyst's share."""
    shares = [caps_of(terms, p) for p in view.principals().values()]
    return {purse: cap - sum(part[purse] for part in shares) for purse, cap in terms.caps.items()}


def unassigned_charges(terms: Terms, view: View) -> dict[Purse, Charges]:
    """What every cell has paid that no analyst's account did."""
    names = [p.name for p in view.principals().values() if p.share is not None]
    return {purse: _others(purse, names, view) for purse in terms.caps}


def _others(purse: Purse, names: list[str], view: View) -> Charges:
    whole = view.charges(purse)
    accounts = [view.charges(account_of(purse, name)) for name in names]
    everywhere = whole.everywhere - sum(paid.everywhere for paid in accounts)
    rest: list[Added] = [((), max(everywhere, 0))]
    for columns, quanta in whole.sets().items():
        paid = [p.sets()[columns] for p in accounts if columns in p.sets()]
        rest.append((columns, quanta - sum(paid[1:], paid[0]) if paid else quanta))
    return type(whole)(whole.atoms, whole.charge_by).plus(rest)


def unassigned(terms: Terms, view: View) -> Fraction:
    """What the dearest cell has left for answers that no analyst's share holds, in rho."""
    if not view.principals().assigned:
        return rho_of(terms.caps["answer"] - view.spent("answer"), terms.rho)
    paid, cap = unassigned_charges(terms, view)["answer"], unassigned_caps(terms, view)["answer"]
    return rho_of(max(cap - paid.worst(), 0), terms.rho)


def check_share(terms: Terms, view: View, principal: Principal) -> None:
    """Raises BadInput where an analyst's share, once it is given, takes what was spent for nobody's share, or
    is less than what its analyst would have used alone."""
    share, caps = principal.share or Fraction(0), unassigned_caps(terms, view)
    for purse, paid in unassigned_charges(terms, view).items():
        missing = paid.worst() - caps[purse]
        if missing > 0:
            left = max(share - Fraction(missing, terms.caps[purse]), Fraction(0))
            raise BadInput(
                f"a share of {float(share):g} is not left: at most {float(left):.6g}, since the rest "
                f"for {purse}s was spent",
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
    was paid.  ``spent_rho`` holds what was given to others for what they had paid for, ``to_others_rho``,
    less what others gave for the same reason, ``from_others_rho``."""
    if principal.share is None:
        return None
    cap = caps_of(terms, principal)["answer"]
    paid = view.spent(account_of("answer", principal.name))
    bound = view.spent(account_of("answer", principal.name, alone=True))
    given = view.spent(tally_of("answer", principal.name, "reuse"))
    back = view.spent(tally_of("answer", principal.name, "back"))
    return {
        "name": principal.name,
        "active": principal.active,
        "share": float(principal.share),
        "cap_rho": float(rho_of(cap, terms.rho)),
        "spent_rho": float(rho_of(paid, terms.rho)),
        "remaining_rho": float(rho_of(max(cap - paid, 0), terms.rho)),
        "alone_rho": float(rho_of(bound, terms.rho)),
        "saved_rho": float(rho_of(max(bound - paid, 0), terms.rho)),
        "to_others_rho": float(rho_of(given, terms.rho)),
        "from_others_rho": float(rho_of(back, terms.rho)),
    }
