"""Who wants no more once the rows are counted is charged nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from defray.errors import Cancelled
from tests.tables import people


class Counted:
    """A real source, after whose scans the caller wants no more."""

    def __init__(self, source: Any) -> None:
        self.source, self.over = source, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def scan(self, *given: Any) -> Any:
        found = self.source.scan(*given)
        self.over = True
        return found


def test_cancelled_after_the_scan_nothing_is_charged(tmp_path: Path):
    with people(tmp_path, "rho = 1", 2_000) as session:
        engine: Any = session._engine
        source = engine._source = Counted(engine._source)
        with pytest.raises(Cancelled):
            session.ask("SELECT COUNT(*) FROM people", within=50, cancelled=lambda: source.over)
        assert source.over and session.balance()["spent_rho"] == 0 and session.history() == []
        assert session.ask("SELECT COUNT(*) FROM people", within=50).charged_rho > 0
