"""``python -m benchmarks [asks] [service] [sharing] [transcript] [source] [sources] [views] ...``."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.table import show

TITLES = {
    "transcript": "Answers from the transcript, long ledgers, start-up",
    "scarcity": "A scarce budget in any order of arrivals",
    "scarcity_engine": "The same gates on the real engine",
    "sharing": "Several analysts on one budget",
    "service": "Requests a second over HTTP",
    "asks": "Fresh asks against the same SQL in raw DuckDB",
    "source": "Scans alone",
    "sources": "Scans on every kind of source against its own SQL",
    "marginals": "Overlapping marginals against a certified bound",
    "views": "Views: charges, answers under caps, and what deciding costs",
}

chosen = sys.argv[1:] or list(TITLES)
for name in chosen:
    if name not in TITLES:
        sys.exit(f"no benchmark called {name}; there are: {', '.join(TITLES)}")
    show(TITLES[name], import_module(f"benchmarks.{name}").lines())
