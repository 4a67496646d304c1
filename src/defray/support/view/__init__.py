"""A view: one set of attributes, and what all releases over its cells say together.

Everything released is ``y_t = b_t . x + N(0, v_t)``: a public functional of the view's cell counts x, a
public variance, a noisy number.  The precision ``P = sum b b'/v`` is what is known; its diagonal is what
each cell has paid, in precision: a row of cell c has lost ``rho_c = k^2 P_cc / 2`` for units of k rows.

Floats decide here what to measure.  What is claimed of it (variance, deviation, charge) is recomputed
from the weights over releases, and no claim rests on a solver.
"""
