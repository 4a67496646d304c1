"""What SQL has and Defray does not: the name of each construct and the nearest form that works.

A refusal is found by the first token that the grammar does not expect, so these tables only put names
to things; nothing is accepted because it is missing here.
"""

from __future__ import annotations

STAR = ("SELECT * is", "rows are never returned: write COUNT(*), or name an aggregate")
JOINS = (
    "joins are",
    "ask one table; the curator may declare a view over several tables as the source",
)
SUBQUERIES = ("subqueries are", "ask one table directly, with the conditions in WHERE")
ARITHMETIC = (
    "arithmetic is",
    "compare a column with a number: age >= 40, not age + 1 > 40",
)
OUTPUT_ARITHMETIC = (
    "arithmetic on outputs is",
    "select the aggregates alone and compute with the answers: SUM(a), COUNT(*)",
)
GROUP_ARITHMETIC = (
    "grouping by an expression is",
    "group by the column itself: its groups are the declared values or bins",
)
PATTERNS = ("patterns are", "list the values that match: column IN ('a', 'b')")
SETS = ("combining queries is", "ask each query alone, or join the conditions with OR")
CASTS = (
    "CAST is",
    "compare the column itself; only a literal may be cast: CAST('2020-01-31' AS DATE)",
)
LISTS = ("arrays and structs are", "list values in parentheses: column IN (1, 2)")
PARAMETERS = ("parameters are", "write the value itself into the text")
WINDOWS = ("window functions are", "use GROUP BY, which answers every declared group")
CASE = ("CASE is", "put the condition in WHERE, one question for each case")
DISTINCT = ("DISTINCT is", "use COUNT(*) with GROUP BY; groups are the declared ones")
GROUPING_SETS = ("grouping sets are", "ask one GROUP BY for each set: GROUP BY a, b")
DISTINCT_FROM = ("IS DISTINCT FROM is", "write column = value, or column IS NULL")
FETCH = ("FETCH is", "write LIMIT 10")
SAMPLES = ("TABLESAMPLE is", "ask the whole table; a wider ERROR WITHIN is what costs less")
PIVOTS = ("PIVOT is", "use GROUP BY a, b and turn the answer yourself")
QUANTIFIERS = ("ANY, ALL and SOME are", "list values: column IN (1, 2)")
INTERVALS = ("INTERVAL is", "write the date itself: DATE '2020-01-31'")
ESCAPES = ("strings with a prefix are", "write a plain string: 'text', a quote in it doubled")

WORDS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "JOIN",
            "INNER",
            "LEFT",
            "RIGHT",
            "FULL",
            "OUTER",
            "CROSS",
            "NATURAL",
            "ASOF",
            "POSITIONAL",
            "SEMI",
            "ANTI",
            "LATERAL",
            "USING",
            "ON",
        ),
        JOINS,
    ),
    **dict.fromkeys(("UNION", "INTERSECT", "EXCEPT", "MINUS"), SETS),
    **dict.fromkeys(("LIKE", "ILIKE", "SIMILAR", "GLOB", "REGEXP", "RLIKE", "ESCAPE"), PATTERNS),
    **dict.fromkeys(("OVER", "WINDOW", "QUALIFY", "PARTITION"), WINDOWS),
    **dict.fromkeys(("CASE", "WHEN", "THEN", "ELSE", "END"), CASE),
    **dict.fromkeys(("CAST", "TRY_CAST"), CASTS),
    **dict.fromkeys(("ROLLUP", "CUBE", "GROUPING", "SETS"), GROUPING_SETS),
    **dict.fromkeys(("ANY", "ALL", "SOME"), QUANTIFIERS),
    **dict.fromkeys(("PIVOT", "UNPIVOT"), PIVOTS),
    **dict.fromkeys(("TABLESAMPLE", "SAMPLE"), SAMPLES),
    **dict.fromkeys(("ARRAY", "STRUCT", "MAP", "ROW"), LISTS),
    **dict.fromkeys(("SELECT", "EXISTS"), SUBQUERIES),
    "FILTER": ("FILTER is", "put the condition in WHERE, in a question of its own"),
    "WITHIN": ("WITHIN GROUP is", "use COUNT, SUM or AVG"),
    "DISTINCT": DISTINCT,
    "INTO": ("INTO is", "the answer is returned; nothing is stored by a question"),
    "WITH": ("WITH (common table expressions) is", SUBQUERIES[1]),
    "INTERVAL": INTERVALS,
    "COLLATE": ("COLLATE is", "compare with the declared value itself"),
    "FETCH": FETCH,
    "TOP": ("TOP is", "write LIMIT 10 at the end"),
    "FOR": ("FOR UPDATE is", "remove it"),
    "EXCLUDE": ("EXCLUDE is", "name the columns to group by"),
    "REPLACE": ("REPLACE is", "name the columns to group by"),
    "ISNULL": ("ISNULL is", "write IS NULL"),
    "NOTNULL": ("NOTNULL is", "write IS NOT NULL"),
    "XOR": ("XOR is", "write (a AND NOT b) OR (b AND NOT a)"),
}

SIGNS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("+", "-", "*", "/", "%", "//", "**", "^", "&", "|", "<<", ">>", "!"), ARITHMETIC
    ),
    **dict.fromkeys(("~", "~~", "~*", "~~*", "!~", "!~~", "!~*", "!~~*"), PATTERNS),
    **dict.fromkeys(("?", "$", ":", "@", "#"), PARAMETERS),
    **dict.fromkeys(("[", "]", "{", "}", "->", "->>"), LISTS),
    "::": CASTS,
    "||": ("joining strings with || is", "write the whole string"),
    "=>": ("named arguments are", "remove them"),
    ":=": ("named arguments are", "remove them"),
    "`": ("`quoted` names are", 'write "name"'),
}

STATEMENTS = frozenset(
    (
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "BEGIN",
        "CALL",
        "CHECKPOINT",
        "COMMENT",
        "COMMIT",
        "COPY",
        "CREATE",
        "DEALLOCATE",
        "DELETE",
        "DESCRIBE",
        "DETACH",
        "DO",
        "DROP",
        "EXECUTE",
        "EXPLAIN",
        "EXPORT",
        "FORCE",
        "GRANT",
        "IMPORT",
        "INSERT",
        "INSTALL",
        "LOAD",
        "LOCK",
        "MERGE",
        "PIVOT",
        "PRAGMA",
        "PREPARE",
        "REINDEX",
        "REPLACE",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SET",
        "SHOW",
        "START",
        "SUMMARIZE",
        "TABLE",
        "TRUNCATE",
        "UNPIVOT",
        "UPDATE",
        "UPSERT",
        "USE",
        "VACUUM",
        "VALUES",
    )
)
"""What a statement may start with, other than SELECT."""

RESERVED = frozenset(
    (
        "ALL",
        "AND",
        "ANTI",
        "ANY",
        "ARRAY",
        "AS",
        "ASC",
        "ASOF",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "COLLATE",
        "CROSS",
        "CUBE",
        "DESC",
        "DISTINCT",
        "ELSE",
        "END",
        "EXCEPT",
        "EXISTS",
        "FALSE",
        "FETCH",
        "FILTER",
        "FOR",
        "FROM",
        "FULL",
        "GROUP",
        "GROUPING",
        "HAVING",
        "ILIKE",
        "IN",
        "INNER",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "OVER",
        "PIVOT",
        "POSITIONAL",
        "QUALIFY",
        "RIGHT",
        "ROLLUP",
        "SELECT",
        "SEMI",
        "SIMILAR",
        "SOME",
        "TABLESAMPLE",
        "THEN",
        "TRUE",
        "TRY_CAST",
        "UNION",
        "UNPIVOT",
        "USING",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
        "WITHIN",
    )
)
"""Words that are never a name unless they are quoted."""

AGGREGATES = {"COUNT": "COUNT", "SUM": "SUM", "AVG": "AVG", "MEAN": "AVG"}

FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(
        ("MIN", "MAX"), "count instead: COUNT(*) with a condition such as column >= 90"
    ),
    **dict.fromkeys(
        (
            "MEDIAN",
            "QUANTILE",
            "QUANTILE_CONT",
            "QUANTILE_DISC",
            "PERCENTILE_CONT",
            "PERCENTILE_DISC",
            "APPROX_QUANTILE",
            "MODE",
        ),
        "ask AVG(column), or COUNT(*) with GROUP BY column",
    ),
    **dict.fromkeys(
        (
            "STDDEV",
            "STDDEV_POP",
            "STDDEV_SAMP",
            "VARIANCE",
            "VAR_POP",
            "VAR_SAMP",
            "CORR",
            "COVAR_POP",
            "COVAR_SAMP",
            "SKEWNESS",
            "KURTOSIS",
        ),
        "ask AVG(column), or COUNT(*) with GROUP BY column",
    ),
    **dict.fromkeys(
        ("YEAR", "MONTH", "QUARTER", "WEEK", "DAY", "HOUR", "EXTRACT", "DATE_PART", "STRFTIME"),
        "group by date_trunc('month', column)",
    ),
    **dict.fromkeys(("COALESCE", "IFNULL", "NULLIF"), "write column IS NULL OR column = value"),
    **dict.fromkeys(("LOWER", "UPPER", "TRIM"), "compare with the declared value itself"),
    **dict.fromkeys(("APPROX_COUNT_DISTINCT",), DISTINCT[1]),
    **dict.fromkeys(("IF", "IIF"), CASE[1]),
    **dict.fromkeys(
        ("COUNTIF", "COUNT_IF", "SUM_IF", "SUMIF"), "write COUNT(*) with the condition in WHERE"
    ),
    **dict.fromkeys(
        ("CURRENT_DATE", "CURRENT_TIMESTAMP", "NOW", "TODAY", "GETDATE"),
        "write the date itself: DATE '2020-01-31'",
    ),
}
CLOCKS = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
"""Functions that SQL calls without parentheses."""
OTHER_FUNCTION = (
    "COUNT(*), COUNT(column), SUM(column), AVG(column) and date_trunc('month', column) work"
)
