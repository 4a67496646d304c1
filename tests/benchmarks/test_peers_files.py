"""Files of recorded workloads: what is read, and how what cannot be read is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peers import adult_files, covid_files, plain_yaml
from benchmarks.peers.adult_files import Span
from defray.errors import BadInput

WORDS = st.text("abc XYZ019_.:#-'\"[]{},\\äß", max_size=8)
TREES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(tree=TREES, indent=st.sampled_from([None, 2]))
def test_json_is_yaml(tree, indent):
    assert plain_yaml.read(json.dumps({"tree": tree}, indent=indent)) == {"tree": tree}


def test_block_style_comments_and_folded_scalars():
    text = (
        "# declared\n---\nbase:\n- name: 'it''s'  # one\n  long: some, words\n    and more\n"
        '  ub: -1.5\n- {name: "b: c", sub: []}\nother:\n  - - x\n    - y#z\n  - deep:\n      er: 1\n'
    )
    assert plain_yaml.read(text) == {
        "base": [
            {"name": "it's", "long": "some, words and more", "ub": "-1.5"},
            {"name": "b: c", "sub": []},
        ],
        "other": [["x", "y#z"], {"deep": {"er": "1"}}],
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2", 1),
        ("a:\n\t- b", 2),
        ("a: 1\na: 2", 2),
        ("a: |\n  x", 1),
        ("- a\nb: 1", 2),
        ("x: 1\ny: {a b}", 2),
        ('a: "x', 1),
        ('a: "\\q"', 1),
        ("[]]", 1),
        ("a: ]", 1),
        ("a: [1] 2", 1),
    ],
)
def test_what_is_not_plain_yaml_is_told_with_its_line(text, line):
    with pytest.raises(plain_yaml.NotPlain) as told:
        plain_yaml.read(text)
    assert told.value.line == line


def test_bins_are_cut_over_the_declared_domain_and_both_of_its_ends_count():
    span = Span(0, 10)
    assert span.counts(np.array([-1, 0, 1.9, 2, 9.99, 10, 10.1]), 5).tolist() == [2, 1, 0, 0, 2]
    assert [span.touched(a, b, 5) for a, b in ((0, 10), (2, 4), (1.9, 2.1), (3, 3), (-5, -1))] == [
        (0, 5),
        (1, 2),
        (0, 2),
        (1, 2),
        (0, 1),
    ]


def test_tables_are_read_by_place_or_by_name(tmp_path: Path):
    domains, bare, headed = (tmp_path / name for name in ("d.yaml", "bare.csv", "headed.csv"))
    domains.write_text(
        "columns:\n- {name: w, type: d}\n- {name: age, lb: 0, ub: 4}\n- {name: pay, lb: 0, ub: 8}\n"
    )
    bare.write_text("a, 1, 2\nb, ?, 3\n\nc, 3, 7\n")
    headed.write_text("pay,w,age\n2,a,1\n3,b,\n7,c,3\n")
    declared = adult_files.declared(domains, ["age", "pay"])
    for table in (bare, headed):
        found = adult_files.counts(table, declared, bins=4)
        assert {k: v.tolist() for k, v in found.items()} == {
            "age": [0, 1, 0, 1],
            "pay": [0, 2, 0, 1],
        }


def test_arrivals_are_looked_up_by_their_ids(tmp_path: Path):
    pool, order = tmp_path / "pool.csv", tmp_path / "order.csv"
    pool.write_text(
        "query,utility_beta,utility,query_id\n\"{'1': [0, 2]}\",0.001,0.05,b\n{'0': 1},0.01,0.1,a\n"
    )
    order.write_text("query_id\na\nb\na\n")
    known = covid_files.pool(pool)
    assert covid_files.order(order, known, 2) == ["a", "b"]
    assert covid_files.shape(pool, known, ()) == (2, 3)
    assert covid_files.shape(pool, {"a": known["a"]}, ()) == covid_files.SIZES
    assert known["b"].over((2, 3)).tolist() == [1, 0, 1, 1, 0, 1]
    assert known["a"].over((2, 3)).tolist() == [0, 0, 0, 1, 1, 1]


def test_a_block_of_other_things_than_counts_is_refused(tmp_path: Path):
    path = tmp_path / "blocks.npy"
    for bad in (np.ones(3), -np.ones((1, 2)), np.full((1, 2), np.nan), np.array([["a", "b"]])):
        np.save(path, bad)
        with pytest.raises(BadInput):
            covid_files.block(path)
    path.write_bytes(b"no array")
    with pytest.raises(BadInput):
        covid_files.block(path)
