"""Water-filling: the level to which the residuals of a marginal are raised, in closed form.

Of residuals with shares w and precisions u (as the marginal sees them), those below a level theta are
raised to it.  That is the cheapest way to a variance and the most accurate way to spend a budget (both are
convex with one constraint; Lagrange gives one level for all).  Sorting by u and prefix sums give theta
without search.

A tilt r raises residual A to ``theta r_A`` instead; it is the same problem in ``u / r``.  All functions work
along the last axis, so that many marginals are levelled at once.
"""

from __future__ import annotations

import numpy as np

from defray.support.marginal.residuals import Floats


def level_for_variance(shares: Floats, held: Floats, variance: Floats | float) -> Floats:
    """The theta with ``sum w / max(u, theta) = variance``; 0 where the variance holds already.

    >>> level_for_variance(np.array([0.25, 0.75]), np.array([1.0, 0.0]), 1.75).item()
    0.5
    """
    shares, held = _ascending(held, shares)
    target = np.asarray(variance, np.float64)[..., None]
    with np.errstate(divide="ignore"):
        terms = shares / held
    whole = terms.sum(-1, keepdims=True)
    above = np.zeros_like(terms)  # what residuals above the k lowest add to the variance
    above[..., :-1] = np.cumsum(terms[..., :0:-1], -1)[..., ::-1]
    room = target - above
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.cumsum(shares, -1) / room
    theta = _first(levels, (room > 0) & (levels <= _next(held)))
    return np.where(whole[..., 0] <= target[..., 0], 0.0, theta)


def level_for_budget(shares: Floats, held: Floats, rho: Floats | float) -> Floats:
    """The theta with ``sum w (theta - u)_+ / 2 = rho`` (> 0).

    >>> level_for_budget(np.array([0.25, 0.75]), np.array([1.0, 0.0]), 1.125).item()
    2.5
    """
    shares, held = _ascending(held, shares)
    spent = np.cumsum(shares * held, -1) + 2 * np.asarray(rho, np.float64)[..., None]
    levels = spent / np.cumsum(shares, -1)
    return _first(levels, levels <= _next(held))


def _ascending(held: Floats, shares: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(held, axis=-1, kind="stable")
    if held.ndim == 1:
        return shares[order], held[order]
    return np.take_along_axis(shares, order, -1), np.take_along_axis(held, order, -1)


def _next(held: Floats) -> Floats:
    """The level at which one residual more would have to be raised."""
    following = np.full_like(held, np.inf)
    following[..., :-1] = held[..., 1:]
    return following


def _first(levels: Floats, right: np.ndarray) -> Floats:
    """The level of the fewest residuals for which it is right; raising all always is."""
    at = right.argmax(-1)
    if levels.ndim == 1:
        level: Floats = levels[at]
        return level
    chosen: Floats = np.take_along_axis(levels, at[..., None], -1)[..., 0]
    return chosen
