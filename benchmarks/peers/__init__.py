"""Defray beside its peers, on their workloads: what is answered, what it costs, how wrong, how fast.

``python -m benchmarks.peers`` (or ``make bench-peers``) prints every table.  The recorded workloads are read
from the folder that ``DEFRAY_WORKLOADS`` names; each has a synthetic twin of its shape that needs no file.

    python -m benchmarks.peers predicates marginals           only those
    python -m benchmarks.peers covid --pool P --order O        one recorded workload, from files of its form
    python -m benchmarks.peers adult --table T --domains D --questions Q --epsilon 0.8 --delta 1e-5

Throughout, one row is added or removed between neighbouring tables, and a row in cell c loses ``rho_c = sum
b_c^2 / (2 v)`` over all releases: what was spent is the largest of these over the declared domain.
"""

import os

# One thread: more only compete for matrices of some hundred rows, and blur what a question takes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
