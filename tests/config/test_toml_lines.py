import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.config.fields import toml_key, toml_string
from defray.config.toml_lines import key_lines

NASTY = '''\
# a = "[not"
a = 1.5 # = [x]
"b.c" = """
  [d]
e = 1 \\""" """""
'f"' = \'\'\'
g = "\'\'\'
h . "i" . j = [ # ]
  "]", 1979-05-27 07:32:00,

  {k = 1, l.m = ["}"]},
]

[ n ]
o = {}
[n."p q"]
r = [[], [[1,
2]]]
[[s]]
t = 1
[[s]]
t = 2
[s.u]
v = 3
[[s.w]]
x = 4
'''


def paths(value, where=()):
    """Every place of a document."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in items:
        yield (*where, key)
        if isinstance(inner, list | dict):
            yield from paths(inner, (*where, key))


def test_every_place_of_a_nasty_document_has_its_line():
    lines = key_lines(NASTY)
    assert set(lines) == set(paths(tomllib.loads(NASTY)))
    assert lines[("a",)] == 2
    assert lines[("b.c",)] == 3
    assert lines[('f"',)] == 6
    assert lines[("h", "i", "j")] == 8
    assert lines[("h", "i", "j", 2, "l", "m", 0)] == 11
    assert lines[("n",)] == 14
    assert lines[("n", "p q", "r", 1, 0, 1)] == 18
    assert lines[("s", 0, "t")] == 20
    assert lines[("s", 1)] == 21
    assert lines[("s", 1, "u", "v")] == 24
    assert lines[("s", 1, "w", 0, "x")] == 26


@pytest.mark.parametrize("text", ["", "\n\n", "# only", "a=1", "[a]", "[[a]]", "a={b=1}#c"])
def test_small_documents(text):
    assert set(key_lines(text)) == set(paths(tomllib.loads(text)))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.integers().map(str) | st.booleans().map(lambda b: str(b).lower()) | TEXT.map(toml_string),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ",\n".join(items) + "\n]")
        | st.dictionaries(TEXT.map(toml_key), inner, max_size=3).map(
            lambda d: "{" + ", ".join(f"{k} = {v}" for k, v in d.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(TEXT.map(toml_key), VALUES, max_size=5))
def test_any_document(table):
    text = "\n\n".join(f"{key} = {value}" for key, value in table.items())
    document = tomllib.loads(text)
    lines = key_lines(text)
    assert set(lines) == set(paths(document))
    written = text.split("\n")
    for key in table:
        (name,) = tomllib.loads(f"{key} = 0")
        assert written[lines[(name,)] - 1].startswith(f"{key} = ")
