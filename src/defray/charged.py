"""What releases were charged: an ask in all, the regions that paid for it, and the values of a column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, Final

from defray.core.amounts import rho_of
from defray.core.domain import Domain
from defray.errors import NotFound
from defray.ledger.records import Release

if TYPE_CHECKING:
    from defray.support.charges import Added, Charges

RUNS: Final = 40
"""The most runs of values that a strip is told in."""


def paid_by(release: Release, domain: Domain, rho: Fraction) -> tuple[Added, ...]:
    """What each cell pays for a release of a contract of ``rho``, by its weights and the declared domain."""
    from defray.support.measured import paid_of  # arrays are loaded only where cells are told apart

    return paid_of(
        release.weights,
        release.attributes,
        domain,
        reach=release.reach,
        sigmas=release.sigmas,
        charge=release.charge,
        rho=rho,
        by_cell=release.by_cell,
    )


def charges_of(bought: Iterable[Release], domain: Domain, rho: Fraction) -> Charges:
    """What each cell paid for some releases, whichever the purse."""
    from defray.support.charges import Charges

    charges = Charges.of(domain)
    for release in bought:
        charges = charges.plus(paid_by(release, domain, rho))
    return charges


def paid_for(bought: Sequence[Release], domain: Domain, rho: Fraction) -> int:
    """What the releases of an ask were charged together, in quanta: what the dearest cell paid from each
    purse."""
    by_purse: dict[str, list[Release]] = {}
    for release in bought:
        by_purse.setdefault(release.purse, []).append(release)
    return sum(_dearest(found, domain, rho) for found in by_purse.values())


def _dearest(bought: Sequence[Release], domain: Domain, rho: Fraction) -> int:
    if len(bought) == 1 or not any(r.by_cell for r in bought):
        return sum(r.charge for r in bought)
    return charges_of(bought, domain, rho).worst()


def regions_of(
    bought: Sequence[Release], before: Sequence[Release], domain: Domain, rho: Fraction
) -> dict[str, Any]:
    """Where an ask was charged: how many cells of which columns paid, the dearest of them, and what half of
    them paid at most.  What all cells paid alike is ``everywhere_rho``.  ``rose_rho`` is by how much what the
    dearest cell of the whole domain has paid rose: the balance fell by that."""
    import numpy as np

    from defray.support.charges import DENSE

    charges = charges_of(bought, domain, rho)
    had = charges_of(before, domain, rho)
    rose = had.plus([((), charges.everywhere), *charges.sets().items()]).worst() - had.worst()
    columns = tuple(sorted({i for attributes in charges.sets() for i in attributes}))
    cells = prod(domain.widths[i] for i in columns)
    out: dict[str, Any] = {
        "columns": [domain.names[i] for i in columns],
        "dearest_rho": float(rho_of(charges.worst(), rho)),
        "everywhere_rho": float(rho_of(charges.everywhere, rho)),
        "rose_rho": float(rho_of(rose, rho)),
    }
    if columns and cells <= DENSE:
        paid = charges.paid(columns)
        place = np.unravel_index(int(paid.argmax()), paid.shape)
        out |= {
            "cells": cells,
            "paying": int((paid > 0).sum()),
            "median_rho": float(rho_of(int(np.median(paid)), rho)),
            "dearest": {
                domain.names[c]: domain.columns[c].label(int(atom))
                for c, atom in zip(columns, place, strict=True)
            },
        }
    return out


def least_of(charges: Charges) -> int:
    """What the least charged cell has paid, or a bound that is not above it."""
    from defray.support.charges import DENSE

    touched = tuple(sorted({i for attributes in charges.sets() for i in attributes}))
    if touched and prod(charges.atoms[i] for i in touched) <= DENSE:
        return int(charges.paid(touched).min())
    return charges.everywhere


def by_value(
    charges: Charges, cap: int, domain: Domain, name: str, rho: Fraction
) -> list[dict[str, Any]]:
    """What the dearest cell of every value of a column has paid, in at most ``RUNS`` runs of neighbouring
    values: those that paid the same, or parts of equal length.  NotFound where there is no such column."""
    at = domain.find(name)
    if at is None:
        raise NotFound(
            f"there is no column {name:.40}", hint=f"the columns are {', '.join(domain.names)}"
        )
    strip = charges.strip(at).tolist()
    column = domain.columns[at]
    return [
        {
            "from": column.label(low),
            "to": column.label(high - 1),
            "values": high - low,
            "spent_rho": float(rho_of(max(strip[low:high]), rho)),
            "remaining_rho": float(rho_of(max(cap - max(strip[low:high]), 0), rho)),
        }
        for low, high in [
            *runs_of(strip[: column.proper], RUNS),
            *((i, i + 1) for i in range(column.proper, column.width)),  # OTHER and NULL
        ]
    ]


def runs_of(strip: Sequence[int], most: int) -> list[tuple[int, int]]:
    """A strip cut into at most so many runs: of equal neighbours, or where these are too many into parts of
    about equal length.

    >>> runs_of([0, 0, 5, 5, 5, 1], 3), runs_of([1, 2, 3, 4, 5], 2)
    ([(0, 2), (2, 5), (5, 6)], [(0, 3), (3, 5)])
    """
    if len(strip) <= most:
        return [(i, i + 1) for i in range(len(strip))]
    starts = [0, *(i for i in range(1, len(strip)) if strip[i] != strip[i - 1])]
    if len(starts) > most:
        length = -(-len(strip) // most)
        starts = list(range(0, len(strip), length))
    return list(zip(starts, [*starts[1:], len(strip)], strict=True))
