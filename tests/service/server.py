"""A service in a process of its own, for tests that stop it, kill it or talk to it over a socket.

``python -m tests.service.server CONTRACT OPTIONS``: the options are JSON, ``slow`` seconds for each scan,
``linger`` seconds after each commit, ``limits``.  It says its address and tokens, and "committed".
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from defray.service import logs, run
from defray.service.limits import Limits
from tests.service.conftest import House
from tests.tables import slow_session


def main(contract: Path, slow: float = 0, linger: float = 0, limits: Any = None) -> None:
    with slow_session(contract, slow) as session:
        ledger: Any = session._engine.ledger
        transaction = ledger.transaction

        @contextlib.contextmanager
        def lingering() -> Iterator[Any]:
            with transaction() as tx:
                yield tx
            print(json.dumps({"committed": True}), flush=True)
            time.sleep(linger)

        house = House(session, Limits(**(limits or {})))
        if linger:
            ledger.transaction = lingering
        logs.to()

        def started(url: str) -> None:
            print(json.dumps({"url": url, "tokens": house.tokens}), flush=True)

        run.serve(house.app, "127.0.0.1", 0, started)


if __name__ == "__main__":
    main(Path(sys.argv[1]), **json.loads(sys.argv[2]))
