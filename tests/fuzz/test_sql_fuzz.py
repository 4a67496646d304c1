"""Whatever the text: a question, or a refusal that points into it, in bounded time.

The texts are made from seeds, so a failure names the seed that makes it again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from defray.errors import QueryError
from defray.query.descriptor import Question
from defray.query.render import canonical_sql
from tests.query.people import DOMAIN, REGIONS, TABLE, ask

BLOCKS = 8
QUICK, THOROUGH = 3_000, 20_000
LIMIT_SECONDS = 5.0  # ten times what they take: what grows too fast takes minutes

NAMES = [
    "age", "city", '"group"', "income", "joined", "member", "note", "score", "seen", "sex",
    '"Site No"', "visits", "AGE", "p.age", "people.sex", "salary", "count", "n", '""', '"a""b"',
]  # fmt: skip
VALUES = [
    "0", "30", "-5", "2.5", "1e3", "1e400", "1e-999999999", "9" * 200, ".5", "5.", "0x1F", "40abc",
    "'F'", "'Oslo'", "'Côte d''Azur'", "''", "'x", "NULL", "TRUE", "false", "DATE '2020-06-01'",
    "'2020-13-45'", "TIMESTAMP '2024-01-31 12:00:00'", "'2020-06-01'::DATE", "CAST('x' AS DATE)",
    "'0001-01-01T00:00:00+14:00'::TIMESTAMP", "20000", "20500", "nan", "inf",
]  # fmt: skip
TABLES = ["people", "People p", '"people"']
OPERATORS = ["=", "<>", "!=", "<", "<=", ">", ">=", "==", "LIKE", "~", "IS", "::", "<=>", "=>"]
HOSTILE = [
    ";DROP TABLE people", "; SELECT 1", "--", "/*", "*/", "/*+ x */", "/* /* */", "'", '"', "`",
    "\x00", "\ud800", "\u202e", "\u200b", "\xa0",
    "а", "ｓｅｌｅｃｔ", "ſ", "İ", "’", "𝟑", "٣", "\\", "$$", "{{x}}",
    "read_csv('/etc/passwd')", "pg_sleep(5)", "1//(id-5)", "error('x')", "CASE WHEN age=5 THEN 1 END",
    "ATTACH 'x.db'", "COPY people TO 'x'", "PRAGMA x", "UNION SELECT 1", "JOIN people q ON 1=1",
    "OVER ()", "FILTER (WHERE TRUE)", "(SELECT 1)", "CAST(sex AS INT)", "sex::INT", "?", "$1", ":x",
    "ERROR WITHIN 0", "ERROR WITHIN 50 AT CONFIDENCE 95%", "AT CONFIDENCE 100%", "ERROR", "WITHIN",
    "GROUP BY ALL", "ORDER BY 99", "LIMIT -1", "LIMIT 1e5", "OFFSET 'x'", "HAVING sex = 1", ",", ".",
    "(", ")", "((", "NOT " * 40, "-" * 40, "(" * 33, "[1]", "{'a': 1}", "||", "EXTRACT(year FROM joined)",
    "COUNT(DISTINCT sex)", "MIN(age)", "INTERVAL 3 DAY", "E'\\n'", "IN ()", "BETWEEN", "IS DISTINCT FROM",
    "\r\n", "\t", "\x85", "\x1b[31m", "é", "ﬀ", "🙂", "a" * 300,
]  # fmt: skip


class Maker:
    """Makes texts from a grammar that is a little larger than the one that is answered."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.pick = self._random.choice

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def number(self, most: int) -> int:
        return self._random.randrange(most)

    def statement(self) -> str:
        parts = [f"SELECT {self.items()} FROM {self.pick(TABLES)}"]
        if self.chance(0.8):
            parts.append(f"WHERE {self.condition(3)}")
        if self.chance(0.3):
            keys = ["sex", "member", '"group"', "date_trunc('month', joined)", "2", "note"]
            parts.append(
                "GROUP BY " + ", ".join(self.pick(keys) for _ in range(1 + self.number(2)))
            )
        if self.chance(0.2):
            parts.append(f"HAVING {self.pick(['COUNT(*)', 'n'])} > {self.pick(VALUES)}")
        if self.chance(0.3):
            parts.append(
                f"ORDER BY {self.pick(['1', '2', 'n DESC', 'COUNT(*)', 'sex NULLS LAST'])}"
            )
        if self.chance(0.2):
            parts.append(f"LIMIT {self.number(9)}")
        if self.chance(0.5):
            goals = ["50", "2%", "0.5", "50 FOR n", "0", "-1", "1e400", "5 FOR n, 2% FOR m"]
            goal = self.pick(goals if self.chance(0.3) else goals[:3])
            parts.append(
                f"ERROR WITHIN {goal} {self.pick(['', 'AT CONFIDENCE 95%', 'SIMULTANEOUS'])}"
            )
        return " ".join(parts)

    def items(self) -> str:
        calls = [
            "COUNT(*)",
            "COUNT(1)",
            "COUNT(*) AS n",
            f"SUM({self.pick(NAMES)})",
            "AVG(income) m",
        ]
        found = [self.pick(calls)]
        if self.chance(0.2):
            found.append(self.pick(["sex", "member", "date_trunc('month', joined)", *calls]))
        return ", ".join(found)

    def condition(self, depth: int) -> str:
        if depth == 0 or self.chance(0.4):
            return self.leaf()
        match self.number(4):
            case 0:
                return f"NOT ({self.condition(depth - 1)})"
            case 1:
                return f"({self.condition(depth - 1)}) IS {self.pick(['TRUE', 'NOT TRUE', 'NULL'])}"
            case _:
                word = self.pick(["AND", "OR"])
                return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"

    def leaf(self) -> str:
        if self.chance(0.95):  # one that is answered
            return self.pick(
                [
                    f"age >= {self.number(121)}",
                    f"age BETWEEN {self.number(60)} AND {60 + self.number(60)}",
                    f"age IN ({self.number(121)}, {self.number(121)})",
                    f"sex = '{self.pick('FMX')}'",
                    f"city <> '{self.pick(['Oslo', 'Rome', 'Bern'])}'",
                    f"income < {1000 * (1 + self.number(99))}",
                    f"joined >= DATE '202{self.number(4)}-0{1 + self.number(9)}-01'",
                    f"visits NOT IN ({self.number(1001)})",
                    f"score >= {self.pick(['0', '2.5', '5'])}",
                    "member",
                    "sex IS NULL",
                ]
            )
        name, value, other = self.pick(NAMES), self.pick(VALUES), self.pick(VALUES)
        return self.pick(
            [
                f"{name} {self.pick(OPERATORS)} {value}",
                f"{value} {self.pick(OPERATORS)} {name}",
                f"{name} IN ({value}, {other})",
                f"{name} BETWEEN {value} AND {other}",
                f"{name} IS NOT {self.pick(['NULL', 'TRUE', 'DISTINCT FROM 1'])}",
                name,
            ]
        )

    def mutated(self) -> str:
        text = self.statement()
        for _ in range(1 + self.number(3)):
            at, piece = self.number(len(text) + 1), self.pick(HOSTILE)
            match self.number(5):
                case 0:
                    text = text[:at] + piece + text[at:]
                case 1:
                    text = text[:at] + text[at + self.number(6) :]
                case 2:
                    words = text.split(" ")
                    words[self.number(len(words))] = piece
                    text = " ".join(words)
                case 3:
                    words = text.split(" ")
                    self._random.shuffle(words)
                    text = " ".join(words)
                case _:
                    text = text.replace(self.pick(NAMES), piece, 1)
        return text

    def noise(self) -> str:
        pieces = [
            *HOSTILE,
            *NAMES,
            *VALUES,
            *OPERATORS,
            "SELECT",
            "COUNT(*)",
            "FROM people",
            "WHERE",
        ]
        return " ".join(self.pick(pieces) for _ in range(self.number(30)))

    def characters(self) -> str:
        return "".join(chr(self.number(0x3000)) for _ in range(self.number(80)))


def texts(seed: str, count: int) -> list[str]:
    made: list[Callable[[Maker], str]] = [
        Maker.statement, Maker.statement, Maker.statement, Maker.mutated, Maker.mutated,
        Maker.mutated, Maker.noise, Maker.characters,
    ]  # fmt: skip
    return [made[i % len(made)](Maker(f"{seed}/{i}")) for i in range(count)]


def outcome(text: str, *, snap: bool = False) -> Question | QueryError:
    """What parsing gives, with all that holds for whatever text."""
    started = time.thread_time()
    found: Question | QueryError
    try:
        found = ask(text, snap=snap)
    except QueryError as refused:
        found = refused
    taken = time.thread_time() - started
    assert taken < LIMIT_SECONDS, f"{taken:.2f} s for {text[:200]!r}"
    if isinstance(found, QueryError):
        assert 0 <= found.start <= found.end <= len(text), (found, text)
        assert found.kind
        assert found.hint, (found, text)
        assert found.message
        assert found.text == text
        assert len(found.message) + len(found.hint) < 2_000
        assert "^" in found.caret()
    return found


def run(block: int, count: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for i, text in enumerate(texts(f"block {block}", count // BLOCKS)):
        found = outcome(text, snap=i % 5 == 0)
        kinds[found.kind if isinstance(found, QueryError) else "a question"] += 1
        if isinstance(found, Question) and i % 4 == 0:
            again = canonical_sql(found, DOMAIN, REGIONS, TABLE, accuracy=True)
            assert ask(again).region == found.region, (text, again)
    return kinds


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_text_is_answered_or_refused(block: int) -> None:
    kinds = run(block, QUICK)
    assert kinds["a question"] > QUICK // BLOCKS // 10
    assert len(kinds) > 12


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_more_texts_are_answered_or_refused(block: int) -> None:
    run(100 + block, THOROUGH)


START = "SELECT COUNT(*) FROM people WHERE "
MANY_PAIRS = " OR ".join(f"(age = {i % 121} AND visits = {i % 997})" for i in range(1500))
LARGE = {
    "one megabyte": "a" * 1_000_000,
    "one megabyte of a literal": START + "sex = '" + "a" * 1_000_000 + "'",
    "64 KiB of spaces": START + " " * 60_000 + "age = 3",
    "64 KiB of a literal": START + "city = '" + "a" * 60_000 + "'",
    "64 KiB of a name": START + "a" * 60_000 + " = 1",
    "64 KiB of digits": START + "age = " + "9" * 60_000,
    "64 KiB of a comment": START + "age = 3 /*" + "*" * 60_000 + "*/",
    "open comments": "/*" * 32_000,
    "open quotes": START + "'" * 60_001,
    "doubled quotes": START + "sex = '" + "''" * 30_000,
    "open parentheses": START + "(" * 60_000,
    "closed parentheses": START + ")" * 60_000,
    "NOT after NOT": START + "NOT " * 15_000 + "age = 3",
    "minus after minus": START + "age = " + "- " * 9_000 + "3",
    "deep": START + "(" * 32 + "age = 3" + ")" * 32,
    "too deep": START + "(" * 33 + "age = 3" + ")" * 33,
    "CASE in CASE": "SELECT " + "CASE WHEN " * 5_000,
    "many numbers": START + "age IN (" + ",".join(str(i % 121) for i in range(4_096)) + ")",
    "too many numbers": START + "age IN (" + ",".join("1" for _ in range(9_000)) + ")",
    "many tokens": START + "age IN (" + "1," * 30_000,
    "many inequalities": START + " AND ".join(f"age <> {i % 121}" for i in range(4_000)),
    "many alternatives": START + " OR ".join(f"income < {1000 + i % 90 * 1000}" for i in range(3_000)),
    "many pairs": START + MANY_PAIRS,
    "many pairs turned": START + f"NOT ({MANY_PAIRS})",
    "long lists": START + " OR ".join(
        f"(age IN ({', '.join(str(j) for j in range(i, 121, 3))}) AND visits IN "
        f"({', '.join(str(j) for j in range(i, 999, 7))}))" for i in range(40)
    ),
    "alternating": START + "(age = 1 OR sex = 'F') AND (visits = 2 OR member) AND " * 700 + "TRUE",
    "IS in IS": START + "(" * 30 + "age = 1 AND sex = 'F'" + " OR member) IS UNKNOWN" * 30,
    "many outputs": "SELECT " + "COUNT(*)," * 3_000 + "COUNT(*) FROM people",
    "many groups": "SELECT COUNT(*) FROM people GROUP BY " + "sex," * 9_000 + "sex",
    "many orders": "SELECT COUNT(*) FROM people ORDER BY " + "count," * 9_000 + "count",
    "many conditions of HAVING": f"SELECT COUNT(*) FROM people HAVING {'count > 1 OR ' * 4_000} count < 1",
    "many goals": "SELECT COUNT(*) n FROM people ERROR WITHIN " + "5 FOR n," * 5_000 + "5 FOR n",
    "many statements": "SELECT COUNT(*) FROM people" + ";" * 30_000,
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_and_deep_texts_take_bounded_time(name: str) -> None:
    found = outcome(LARGE[name])
    if isinstance(found, Question):
        started = time.thread_time()
        canonical_sql(found, DOMAIN, REGIONS, TABLE)
        assert time.thread_time() - started < 4 * LIMIT_SECONDS


@pytest.mark.parametrize("piece", HOSTILE, ids=[ascii(piece[:30]) for piece in HOSTILE])
def test_hostile_pieces_anywhere(piece: str) -> None:
    words = [
        "SELECT",
        "COUNT(*)",
        "AS",
        "n",
        "FROM",
        "people",
        "WHERE",
        "age",
        ">=",
        "30",
        "AND",
        "sex",
        "=",
        "'F'",
        "ERROR",
        "WITHIN",
        "5",
    ]
    for at in range(len(words) + 1):
        outcome(" ".join([*words[:at], piece, *words[at:]]))
        outcome(" ".join([*words[:at], piece, *words[at + 1 :]]))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WHERE CAST(city AS INT) > 3",
        "SELECT COUNT(*) FROM people WHERE 1//(visits-5) > 0",
        "SELECT COUNT(*) FROM people WHERE error('x')",
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd') FROM people",
        "SELECT COUNT(*) FROM people WHERE CASE WHEN visits=5 THEN pg_sleep(5) END",
        "SELECT COUNT(*) FROM people;DROP TABLE people",
        "ATTACH 'other.db'",
        "SELECT COUNT(*) FROM people /* */ ; -- \n DELETE FROM people",
        "ＳＥＬＥＣＴ COUNT(*) FROM people",
        "SELECT COUNT(*) FROM реople",
        "\ud800",
        "\x00",
        "",
        "   \n\t -- nothing",
    ],
)
def test_what_must_never_reach_a_database_is_refused(text: str) -> None:
    assert isinstance(outcome(text), QueryError)
