"""Several questions decided at once, as the cells of a GROUP BY: one plan, made before any noise is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from defray.support.view.metric import Metric
from defray.support.view.offer import Free, Offer, offer
from defray.support.view.promise import Promise
from defray.support.view.state import Row, State

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Offers in the order in which they are drawn; ``after`` is the fold with all of them (its new rows have
    no values yet), from which every question has its target.  ``charge`` is what each cell pays in all."""

    offers: tuple[Offer, ...]
    after: State
    charge: Floats


def offer_all(
    state: State,
    questions: Floats,
    variances: Sequence[float] | Floats,
    cap: Floats,
    metric: Metric,
    *,
    half_widths: Sequence[float] | Floats,
    elsewhere: Floats | float = 0.0,
    promise: Promise | None = None,
    level: bool | None = None,
) -> Joint | None:
    """Offers for all rows of ``questions``, each crediting those before it; None where one is refused.

    What is measured never depends on noise, so a sequence can be planned as a whole.  Two plans are made, by
    the dense metric and by each question itself (which is the cheaper one for disjoint cells never seen
    before), and the one with the smaller largest charge is taken.
    """
    found = None
    for chosen in (metric, None):
        plan = _in_turn(
            state,
            questions,
            variances,
            cap,
            chosen,
            half_widths=half_widths,
            elsewhere=elsewhere,
            promise=promise,
            level=level,
        )
        if plan is not None and (found is None or plan.charge.max() < found.charge.max()):
            found = plan
    return found


def _in_turn(
    state: State,
    questions: Floats,
    variances: Sequence[float] | Floats,
    cap: Floats,
    metric: Metric | None,
    *,
    half_widths: Sequence[float] | Floats,
    elsewhere: Floats | float,
    promise: Promise | None,
    level: bool | None,
) -> Joint | None:
    after, offers = state, []
    charge = np.zeros(state.cells)
    for q, variance, half_width in zip(questions, variances, half_widths, strict=True):
        found = offer(
            after,
            q,
            float(variance),
            cap - charge,
            metric,
            half_width=float(half_width),
            elsewhere=elsewhere,
            promise=promise,
            level=level,
        )
        if found is None:
            return None
        if isinstance(found, Free):
            continue
        offers.append(found)
        charge = charge + found.charge
        promise = found.promise
        after = after.add(Row(-1, found.b, found.variance, float("nan"), float(variance)))
    return Joint(tuple(offers), after, charge)
