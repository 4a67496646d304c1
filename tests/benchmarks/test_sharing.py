"""Schemes of the analysts' benchmark: what must hold for every sequence of asks."""

from __future__ import annotations

import pytest

from benchmarks.sharing import HALF, LOADS, SCHEMES, Setting

VARIANTS = [name for name in SCHEMES if name not in ("no reuse", "own reuse", "pooled")]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_in_common_leaves_the_own_reuse(seed):
    asks = Setting(0.0, LOADS[1]).asks(seed)
    own = SCHEMES["own reuse"].run(asks)
    assert all(SCHEMES[name].run(asks) == own for name in VARIANTS)


@pytest.mark.parametrize("seed", range(5))
def test_whom_the_own_reuse_serves_every_variant_serves(seed):
    asks = HALF.asks(seed)
    own, _ = SCHEMES["own reuse"].run(asks)
    assert sum(SCHEMES["no reuse"].run(asks)[0]) < sum(own) < len(asks)
    for name in VARIANTS:
        met, _ = SCHEMES[name].run(asks)
        assert all(well or not alone for well, alone in zip(met, own, strict=True))
