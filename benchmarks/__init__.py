"""How fast Defray is, each figure beside what it is compared to, measured in one run.

``python -m benchmarks`` (or ``make bench``) prints every table; ``python -m benchmarks asks transcript``
only the named ones.  ``DEFRAY_BENCH_ROWS`` (default 10,000,000) and ``DEFRAY_BENCH_DIR`` (default
``.bench``, where the generated table is kept) scale and place it.
"""
