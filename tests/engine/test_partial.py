"""Answers that a gate cut down: how wide their intervals are, and that they are given at all."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from defray.core.target import two_sided, two_stage
from tests.engine.test_scarcity import count, price
from tests.tables import people

MORE = "m_floor = 20\nhorizon = 12\n"


@pytest.mark.parametrize("gamma", [0.001, 0.05, 0.3])
def test_two_steps_are_covered_however_the_second_is_chosen(gamma: float) -> None:
    """Even by someone who foresees both errors; and one who sees the first alone needs nearly as much."""
    chance = np.random.default_rng(7)
    x, y = chance.standard_normal((2, 400_000))
    z = two_stage(gamma)
    part = np.linspace(0, 1, 201)
    worst = np.zeros(len(x))
    for r in part:
        worst = np.maximum(worst, np.abs(math.sqrt(r) * x + math.sqrt(1 - r) * y))
    missed = float((worst > z).mean())
    assert missed <= gamma + 4 * math.sqrt(gamma / len(x))
    assert missed >= 0.7 * gamma
    # Ordinary intervals do not hold.
    assert float((worst > two_sided(gamma)).mean()) > 1.3 * gamma


@pytest.mark.parametrize("validity", ["fixed", "confirm", "looks=2"])
@pytest.mark.parametrize("gate", ["fluid", "dual", "steady"])
def test_where_the_weight_may_follow_from_the_answer_intervals_allow_for_it(
    tmp_path: Path, gate: str, validity: str
) -> None:
    """A part that was granted by what the diagnostic said is shown wider; what is met is as wide as asked."""
    gamma = 0.025 if validity == "looks=2" else 0.05
    top = f'rho = 0.1\nxi = 0.05\nsupport = "exact"\ngate = "{gate}"\n{MORE}'
    with people(tmp_path, top, rows=3000) as session:
        whole = session.ask(count(3), within=60, validity=validity)
        assert whole.met and whole.half_width == 60
        session.ask(count(1), within=7)
        quote = session.quote(count(2), within=7, validity=validity)
        answer = session.ask(count(2), within=7, validity=validity)
        assert not answer.met
        known = 2 * answer.charged_rho  # the precision of a count
        assert answer.half_width == pytest.approx(two_stage(gamma) / math.sqrt(known), rel=1e-6)
        assert not quote.exact
    other = (
        f'rho = 0.1\nxi = 0.05\nsupport = "exact"\ngate = "{gate}"\n{MORE}[weights]\nalpha = 0\n'
    )
    (tmp_path / "plain").mkdir()
    with people(tmp_path / "plain", other, rows=3000) as session:
        session.ask(count(1), within=7)
        answer = session.ask(count(2), within=7, validity=validity)
        assert not answer.met  # every weight is 1
        known = 2 * answer.charged_rho
        assert answer.half_width == pytest.approx(two_sided(gamma) / math.sqrt(known), rel=1e-6)


def test_a_spend_that_is_granted_is_as_accurate_as_ever(tmp_path: Path) -> None:
    top = f'rho = 0.1\nxi = 0.05\nsupport = "exact"\ngate = "dual"\n{MORE}'
    with people(tmp_path, top, rows=3000) as session:
        answer = session.ask(count(1), rho=price(12))
        assert answer.half_width == pytest.approx(12, rel=1e-6)


@pytest.mark.parametrize("within", ["0.001", "1e-8", "1e-50"])
@pytest.mark.parametrize("gate", ["greedy", "dual", "generous", "fluid"])
def test_a_part_is_granted_however_tight_the_target(tmp_path: Path, gate: str, within: str) -> None:
    horizon = "" if gate == "greedy" else "horizon = 12\n"
    top = f'rho = 0.1\nsupport = "exact"\ngate = "{gate}"\n{horizon}'
    with people(tmp_path, top, rows=300) as session:
        quote = session.quote(count(1), within=within)
        answer = session.ask(count(1), within=within)
        assert not answer.met
        assert answer.charged_rho == quote.charged_rho > 0
        assert answer.half_width == pytest.approx(quote.achieves["count"])
        assert session.audit().ok
