"""Answers in every form: the same names and numbers everywhere."""

from __future__ import annotations

import json
import sys
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.answer import Answer, Item, Quote, Row
from defray.errors import MissingExtra

FIELDS = (
    "value", "low", "high", "half_width", "confidence", "met", "charged_rho", "reused_rho", "id",
)  # fmt: skip


def row(group: dict[str, object], value: float | None) -> Row:
    return Row(group, "n", value, -5.0, 105.5, 55.25, 0.95, True, 0.01, 0.002, 3, "17.2", "", 4)  # type: ignore[arg-type]


def answer(*rows: Row) -> Answer:
    return Answer(
        "SELECT ...",
        rows,
        0.95,
        False,
        0.01,
        0.002,
        0.9,
        (Item("count", "answer", 0.01, 2),),
        1,
        True,
    )


TABLE = answer(row({"sex": "F", "id": 1}, 50.25), row({"sex": None, "id": 2}, None))


def test_a_dict_holds_every_field_and_is_json():
    document = json.loads(json.dumps(TABLE.to_dict(), allow_nan=False))
    assert set(FIELDS) <= set(document["rows"][0])
    assert document["rows"][1]["group"] == {"sex": None, "id": 2}
    assert document["relation"] == "add/remove one unit"


def test_tables_have_the_groups_then_the_fields_and_no_name_twice():
    for columns, first in (
        (TABLE.to_arrow().column_names, TABLE.to_arrow().column("value")[0].as_py()),
        (list(TABLE.to_pandas().columns), TABLE.to_pandas()["value"][0]),
        (TABLE.to_polars().columns, TABLE.to_polars()["value"][0]),
    ):
        assert columns[:2] == ["sex", "group_id"]
        assert set(FIELDS) <= set(columns)
        assert first == 50.25
    assert TABLE.to_polars()["value"][1] is None


def test_a_one_row_answer_is_its_row():
    single = answer(row({}, 50.25))
    assert (single.value, single.low, single.high) == (50.25, -5.0, 105.5)
    assert single.id == "17.2"
    with pytest.raises(ValueError, match="2 rows"):
        _ = TABLE.value


def test_a_notebook_shows_groups_interval_and_relation_escaped():
    html = answer(row({"city": "<b>"}, 1.0))._repr_html_()
    assert "&lt;b&gt;" in html
    assert "add/remove one unit" in html
    assert "before seeing any answer to this question" in html
    assert "asks so far: 4" in html
    assert "NULL" in TABLE._repr_html_()


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match="polars") as caught:
        TABLE.to_polars()
    assert "defray[polars]" in caught.value.hint


numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(max_size=4)
labels = st.none() | st.booleans() | st.integers(-9, 9) | numbers | names
made_rows = st.builds(
    Row,
    group=st.dictionaries(names, labels, max_size=2),
    aggregate=names,
    value=st.none() | numbers,
    low=numbers | st.just(-inf),
    high=numbers | st.just(inf),
    half_width=numbers | st.just(inf),
    confidence=numbers,
    met=st.booleans(),
    charged_rho=numbers,
    reused_rho=numbers,
    releases=st.integers(0, 9),
    id=names,
    note=names,
    asks=st.integers(0, 9),
)
items = st.builds(Item, names, names, numbers, st.integers(0, 9))
listed = st.lists(names, max_size=2).map(tuple)


@pytest.mark.long
@given(
    st.builds(
        Answer,
        names,
        st.lists(made_rows, max_size=2).map(tuple),
        *[numbers, st.booleans(), numbers, numbers, numbers],
        st.lists(items, max_size=2).map(tuple),
        *[st.integers(0, 9), st.booleans(), numbers, names, listed, names, st.booleans()],
    )
)
def test_an_answer_comes_back_from_its_document(made: Answer):
    assert Answer.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made


@given(
    st.builds(
        Quote,
        names,
        st.booleans(),
        *[numbers] * 6,
        st.booleans(),
        st.lists(items, max_size=2).map(tuple),
        *[st.integers(0, 9), numbers, numbers],
        st.none() | st.dictionaries(names, numbers, max_size=2),
        st.none() | st.dictionaries(names, names, max_size=2),
        *[listed, names],
    )
)
def test_a_quote_comes_back_from_its_document(made: Quote):
    assert Quote.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made


def test_what_a_newer_service_adds_is_passed_over():
    assert Answer.from_dict({**TABLE.to_dict(), "mood": "good"}) == TABLE
