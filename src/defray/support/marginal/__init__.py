"""Marginals: what noisy residuals of attribute sets say about a full GROUP BY, and what it still needs.

The *residual* of an attribute set A is the A-marginal of the table with its mean subtracted along every
axis, ``z_A = kron_i (I - 11'/n_i) x_A``.  Residuals of different sets are orthogonal, and a marginal is
their sum: ``x_B = sum over A in B of broadcast(z_A) / n_{B\\A}``.  So what the transcript knows of *all*
marginals is one number a set, the precision h_A, and overlapping marginals share whatever residuals they
share.

* ``residuals``    attribute sets, their sizes, and a marginal's shares
* ``water``        the level to which a marginal's residuals are raised
* ``support``      what held precisions say about a marginal; plans for a target or for a budget
* ``joint``        several marginals in one plan, with a certified bound
* ``lattice``      what is drawn and charged, exactly
* ``certificate``  marginals from releases, as weights over their ids
* ``fold``         residual releases inside a view
"""
