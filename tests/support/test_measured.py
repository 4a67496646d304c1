"""What a release costs each cell, against every cell and every group one by one."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.amounts import QUANTA, quanta_up
from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.shapes import Whole
from defray.query.descriptor import Axis, cells
from defray.query.region import Region, Regions
from defray.support.measured import mask, paid_of
from defray.support.weights import charge_for, squared_gain, squared_weight, unsound

RHO = Fraction(3, 7)


def domain_of(*widths: int) -> Domain:
    """Columns c0, c1, ... of integers; the last is of days, whose months are groups."""
    columns = [
        Column(f"c{i}", "integer", Whole(0, n - 1), null="drop", other="drop")
        for i, n in enumerate(widths)
    ]
    return Domain((*columns, Column("days", "date", Whole(20, 50), null="drop", other="drop")))


def whole_cells(domain: Domain) -> Any:
    return itertools.product(*(range(n) for n in domain.widths))


@st.composite
def regions_of(draw: st.DrawFn, widths: tuple[int, ...]) -> tuple[Regions, Region]:
    algebra = Regions(widths)
    region: Region = draw(st.booleans())
    for _ in range(draw(st.integers(0, 4))):
        sides = {
            i: draw(st.sampled_from([((0, 1),), ((1, n),), ((n - 1, n),)]))
            for i, n in enumerate(widths)
            if n > 1 and draw(st.booleans())
        }
        join = algebra.either if draw(st.booleans()) else algebra.both
        region = join(region, algebra.box(sides))
        region = algebra.negate(region) if draw(st.booleans()) else region
    return algebra, region


@given(st.data())
def test_a_mask_is_the_region(data: st.DataObject) -> None:
    widths = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    algebra, region = data.draw(regions_of(widths))
    more = data.draw(st.sets(st.integers(0, len(widths) - 1)))
    columns = tuple(sorted({*algebra.columns(region), *more}))
    found = mask(region, columns, widths)
    assert found.shape == tuple(widths[i] for i in columns)
    for cell in itertools.product(*(range(n) for n in widths)):
        assert found[tuple(cell[i] for i in columns)] == algebra.contains(region, cell.__getitem__)


def test_a_mask_of_four_million_cells() -> None:
    algebra = Regions((200, 200, 100))
    region: Region = False
    for i in range(100):
        box = {0: ((i, 2 * i + 1),), 1: ((3, i + 4),), 2: ((i, i + 1),)}
        region = algebra.either(region, algebra.box(box))
    found = mask(region, (0, 1, 2), algebra.widths)
    assert found.shape == algebra.widths
    for cell in np.random.default_rng(0).integers(0, algebra.widths, (2000, 3)).tolist():
        assert found[tuple(cell)] == algebra.contains(region, cell.__getitem__)


@given(st.data())
def test_a_cell_pays_for_its_group_in_the_region(data: st.DataObject) -> None:
    domain = domain_of(2, 3)
    algebra, region = data.draw(regions_of(domain.widths))
    axes = data.draw(
        st.permutations([Axis(0), Axis(1), Axis(2, "month"), Axis(2)]).map(
            lambda p: [a for i, a in enumerate(p[:2]) if a.column not in {b.column for b in p[:i]}]
        )
    )
    grouping = cells(domain, axes)
    sigma = st.none() | st.sampled_from([15.0, 40.0, 7e5])
    sigmas = data.draw(st.lists(sigma, min_size=len(grouping), max_size=len(grouping)))
    reach = Fraction(data.draw(st.integers(1, 9)), 2)
    costs = [0 if s is None else quanta_up(reach**2 / (2 * Fraction(s) ** 2), RHO) for s in sigmas]
    given_more = data.draw(st.integers(0, 3))
    charge = max(costs) + given_more
    touched = sorted({*algebra.columns(region), *(a.column for a in axes)})
    ((columns, paid),) = paid_of(
        {
            "kind": "region",
            "region": algebra.to_json(region),
            "group": [[domain.names[a.column], a.level] for a in axes],
        },
        [domain.names[i] for i in touched],
        domain,
        reach=reach,
        sigmas=sigmas,
        charge=charge,
        rho=RHO,
        by_cell=True,
    )
    assert list(columns) == touched and paid.dtype == np.int64
    paid = paid.reshape([domain.widths[i] for i in columns])
    for cell in whole_cells(domain):
        (group,) = (
            i
            for i, g in enumerate(grouping)
            if all(any(lo <= cell[c] < hi for lo, hi in atoms) for c, atoms in g.sides)
        )
        owed = charge if costs[group] == max(costs) else costs[group]
        expected = owed if algebra.contains(region, cell.__getitem__) else 0
        assert paid[tuple(cell[i] for i in columns)] == expected


@given(st.data())
def test_a_cell_pays_for_its_weight(data: st.DataObject) -> None:
    domain = domain_of(4, 3)
    classes = [data.draw(st.sampled_from([None, [0], [0, 1], [0, 2, 3]])), [0, 2]]
    shape = [4 if classes[0] is None else len(classes[0]), 2]
    count = shape[0] * shape[1]
    step = st.integers(-(2**40), 2**40)
    steps = data.draw(st.lists(step, min_size=count, max_size=count).filter(any))
    bits = data.draw(st.integers(0, 50))
    weights = {"kind": "cells", "classes": classes, "bits": bits, "steps": steps}
    assert list(unsound(weights, 2, 1)) == []
    sigma, reach = 1e6, Fraction(3, 2)
    charge = charge_for(reach**2 * squared_weight(weights), sigma, RHO)
    ((columns, paid),) = paid_of(
        weights, ["c0", "c1"], domain, reach=reach, sigmas=[sigma], charge=charge, rho=RHO,
        by_cell=True,
    )  # fmt: skip
    assert columns == (0, 1) and paid.shape == (4, 3) and paid.max() == min(charge, 2**52)
    for i, j in itertools.product(range(4), range(3)):
        a = i if classes[0] is None else sum(s <= i for s in classes[0]) - 1
        b = reach * steps[a * 2 + (j >= 2)] / 2**bits
        cost = quanta_up(b * b / (2 * Fraction(sigma) ** 2), RHO)
        assert paid[i, j] == min(cost, 2**52)


def test_what_is_the_same_everywhere_is_paid_everywhere() -> None:
    domain = domain_of(3, 4)
    same: dict[str, Any] = {"reach": Fraction(1), "sigmas": [9.0], "charge": 77, "rho": RHO}
    region = {"kind": "region", "region": True, "group": []}
    table = {"kind": "residual", "atoms": [3, 4]}
    for weights, names, by_cell in (
        (region, [], False),
        (table, ["c0", "c1"], True),
        (table, ["c0", "c1"], False),
    ):
        paid = paid_of(weights, names, domain, **same, by_cell=by_cell)
        assert paid == (((), 77),)
    wide = domain_of(3000, 3000)
    functional = {"kind": "cells", "classes": [[0], [0]], "bits": 0, "steps": [1]}
    assert paid_of(functional, ["c0", "c1"], wide, **same, by_cell=True) == (((), 77),)


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ({"kind": "residual", "atoms": [3, 5]}, ["c0", "c1"]),
        ({"kind": "residual", "atoms": [4, 3]}, ["c1", "c0"]),
        ({"kind": "other"}, ["c0"]),
        ({"kind": "region", "region": True, "group": [["c0", "value"]]}, ["c0"]),
        ({"kind": "cells", "classes": [[0, 3]], "bits": 0, "steps": [1, 2]}, ["c0"]),
        ({"kind": "cells", "classes": [None], "bits": 0, "steps": [1, 2]}, ["c0"]),
        ({"kind": "cells", "classes": [None], "bits": 0, "steps": [1, 2, 3]}, ["c9"]),
    ],
)
def test_weights_that_do_not_fit_the_domain_are_refused(weights: Any, names: list[str]) -> None:
    with pytest.raises(ValueError):
        paid_of(
            weights, names, domain_of(3, 4), reach=Fraction(1), sigmas=[9.0], charge=77, rho=RHO,
            by_cell=True,
        )  # fmt: skip


def test_the_price_of_a_residual() -> None:
    """``p_A h_A / 2``, whatever the sigma."""
    weights = {"kind": "residual", "atoms": [3, 4]}
    price = Fraction(2, 3) * Fraction(3, 4)
    precision = squared_gain(weights) / Fraction(50) ** 2
    charge = charge_for(squared_weight(weights), 50.0, RHO)
    assert charge == quanta_up(price * precision / 2, RHO)
    assert charge_for(squared_weight({"kind": "residual", "atoms": []}), 1.0, Fraction(1)) == (
        QUANTA // 2
    )


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"kind": "other"},
        {"kind": "residual"},
        {"kind": "residual", "atoms": [6]},
        {"kind": "residual", "atoms": [6, 1]},
        {"kind": "residual", "atoms": [3, 4]},
        {"kind": "residual", "atoms": [3.0, 2]},
        {"kind": "residual", "atoms": [True, 6]},
        {"kind": "cells", "classes": [None], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, []], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, [1, 2]], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, [0, 0]], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, [0, 2, 3, 4]], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [[0], [0, 1]], "bits": 0, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, None], "bits": -1, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, None], "bits": 1001, "steps": [1] * 6},
        {"kind": "cells", "classes": [None, None], "bits": 0, "steps": []},
        {"kind": "cells", "classes": [None, None], "bits": 0, "steps": [1.0] * 6},
        {"kind": "cells", "classes": [None, None], "bits": 0, "steps": [1, 2**53]},
        {"kind": "cells", "classes": [None, None], "bits": 0, "steps": [1] * 6},
    ],
    ids=str,
)
def test_unsound_weights_are_named(weights: dict[str, Any]) -> None:
    assert list(unsound(weights, attributes=2, values=6))
