"""The sampler's doors: what it accepts, returns, caches and leaves alone."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from defray.noise.opendp_sampler import OpenDPSampler, gaussian
from tests.ledger.forks import in_child

SOURCE = Path(__file__).parents[2] / "src"
SEEDED = ("defray/simulate/",)
"""Made-up workloads are repeatable from a seed; no private number is ever near them."""


@pytest.fixture
def sampler() -> OpenDPSampler:
    return OpenDPSampler()


@pytest.mark.parametrize(
    "scale",
    [
        0,
        0.0,
        -0.0,
        -1.0,
        math.nan,
        math.inf,
        -math.inf,
        2.0**50,
        1e300,
        True,
        "3",
        None,
        Fraction(3),
    ],
    ids=repr,
)
def test_scales_that_are_none(sampler: OpenDPSampler, scale: Any) -> None:
    with pytest.raises(ValueError, match="noise scale"):
        sampler.draw([10.0, scale])


def test_one_draw_a_scale_in_order(sampler: OpenDPSampler) -> None:
    assert sampler.draw([]) == []
    wide, narrow = 2.0**45, 1.5
    drawn = sampler.draw([wide, narrow] * 50)
    assert all(type(x) is int for x in drawn)
    assert all(abs(x) < 60 for x in drawn[1::2])
    assert min(abs(x) for x in drawn[0::2]) > 60


def test_the_ends_of_the_range(sampler: OpenDPSampler) -> None:
    below = math.nextafter(2.0**50, 0)
    drawn = sampler.draw([below] * 500)
    assert 2**53 > max(map(abs, drawn)) > 2**50
    assert len(set(drawn)) == 500
    assert sampler.draw([1e-3] * 5) == [0] * 5  # P(X != 0) < 10**-200000


def test_equal_scales_are_drawn_apart(sampler: OpenDPSampler) -> None:
    assert len(set(sampler.draw([1e9] * 100))) == 100


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0, 12.345, 1e6, 2.0**49 + 0.25])
def test_opendp_s_own_proof_is_our_price(scale: float) -> None:
    """A unit of L2 distance costs 1/(2 s^2), by OpenDP's own (upward rounded) privacy map."""
    own = cast("Any", gaussian(scale)).map(1)
    exact = 1 / (2 * Fraction(scale) ** 2)
    assert 0 <= Fraction(own) - exact <= exact * Fraction(1, 2**48)


def test_measurements_are_kept_and_bounded(sampler: OpenDPSampler) -> None:
    gaussian.cache_clear()
    sampler.draw([3.5] * 10)
    sampler.draw([3.5])
    assert gaussian.cache_info()[:2] == (1, 1)
    for i in range(300):
        sampler.draw([10.0 + i])
    assert gaussian.cache_info().currsize == 256


def test_many_threads_draw_at_once(sampler: OpenDPSampler) -> None:
    drawn: list[list[int]] = []

    def work(i: int) -> None:
        drawn.append([x for _ in range(20) for x in sampler.draw([1e12, 1e12 + i % 3])])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [x for part in drawn for x in part]
    assert len(every) == 320
    assert len(set(every)) == 320


@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_draws_other_noise(sampler: OpenDPSampler) -> None:
    """A generator whose state is copied by fork would give two processes the same noise."""

    def draw() -> str:
        return str(sampler.draw([1e15] * 3))

    draw()
    said = [in_child(draw), in_child(draw), draw(), in_child(draw)]
    assert all(part.startswith("[") for part in said)
    assert len(set(said)) == 4


def test_opendp_is_loaded_at_the_first_draw() -> None:
    code = (
        "import sys, defray.noise.opendp_sampler as m; s = m.OpenDPSampler();"
        "assert 'opendp' not in sys.modules; s.draw([1.0]); assert 'opendp' in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, check=False
    )
    assert done.returncode == 0


def test_low_bits_tell_nothing(sampler: OpenDPSampler) -> None:
    """10,000 answers each to counts of 0 and 1: both are integers with every low-bit pattern, equally."""
    patterns = []
    for count in (0, 1):
        answers = [count + x for x in sampler.draw([40.0] * 10_000)]
        assert all(type(a) is int for a in answers)
        low = Counter(a & 15 for a in answers)
        assert set(low) == set(range(16))
        assert sum((n - 625) ** 2 / 625 for n in low.values()) < 60  # chi-square, 15: P < 1e-6
        patterns.append(set(low))
    assert patterns[0] == patterns[1]


# ------------------------------------------------------------------- no other randomness in the source


def unfit(text: str) -> list[str]:
    """Uses of randomness that is not the operating system's, in Python and in SQL strings."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        elif isinstance(node, ast.Attribute) and node.attr == "random":
            names = ["numpy.random"]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            sql = re.search(r"\b(rand(om)?|gen_random_uuid|uuid)\s*\(\s*\)", node.value, re.I)
            names = ["random"] if sql else []
        else:
            continue
        found += [n for n in names if n == "random" or re.match(r"(random|numpy\.random)(\.|$)", n)]
    return found


def test_the_source_has_no_other_randomness() -> None:
    files = [
        path
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(SEEDED)
    ]
    assert len(files) > 10
    assert {str(path): names for path in files if (names := unfit(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "from random import gauss",
        "import numpy.random",
        "from numpy import random",
        "import numpy as np\nnp.random.normal()",
        "q = 'SELECT * FROM t ORDER BY RANDOM()'",
        "q = f'SELECT rand () FROM {t}'",
    ],
)
def test_unfit_randomness_would_be_seen(text: str) -> None:
    assert unfit(text)


def test_fit_randomness_is_not_mistaken() -> None:
    text = "import secrets, os\n'at random (as it happens)'\nsecrets.token_bytes(3)\n'randomly()'"
    assert not unfit(text)
