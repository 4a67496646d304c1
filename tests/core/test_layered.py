"""A branch holds what was held, and neither sees what the other becomes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from defray.core.layered import Layered

steps = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["set", "branch"]), st.integers(0, 9)),
    max_size=80,
)


@given(steps)
def test_branches_are_copies(taken: list[tuple[int, str, int]]):
    real, plain = [Layered[int, int]()], [dict[int, int]()]
    for at, what, key in taken:
        at %= len(real)
        if what == "branch":
            real.append(real[at].branch())
            plain.append(dict(plain[at]))
        else:
            value = len(real) * 100 + key
            real[at][key] = value
            plain[at][key] = value
        for one, other in zip(real, plain, strict=True):
            assert [one.get(key, -1) for key in range(10)] == [other.get(k, -1) for k in range(10)]
