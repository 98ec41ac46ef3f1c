"""Score text of job files, and suggestions for scores that would stop a stream."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skyband.errors import QueryError
from skyband.spark import top_k
from skyband.spark.expressions import FUNCTIONS, safe_score, suggestion

COLUMNS = ["price", "volume", "ts", "side", "quote", "my col", "order", "r", "date"]

HOSTILE = {
    "reflect('java.lang.System', 'exit', 1)": "reflect",
    "java_method('java.lang.Runtime', 'getRuntime')": "java_method",
    "`reflect`('java.lang.System', 'getenv')": "reflect",
    "try_reflect('java.lang.System', 'getenv')": "try_reflect",
    "(SELECT max(value) FROM text.`/etc/passwd`)": "SELECT",
    "price + (SELECT 1)": "SELECT",
    "price IN (TABLE secrets)": "TABLE",
    "EXISTS (SELECT 1)": "EXISTS",
    "(VALUES (1))": "VALUES",
    "(FROM secrets)": "FROM",
    "price * rand()": "rand",
    "randn(7)": "randn",
    "uuid()": "uuid",
    "shuffle(array(1, 2))[0]": "shuffle",
    "monotonically_increasing_id()": "monotonically_increasing_id",
    "spark_partition_id()": "spark_partition_id",
    "unix_micros(now())": "now",
    "unix_micros(current_timestamp())": "current_timestamp",
    "unix_micros(current_timestamp)": "current_timestamp",
    "unix_timestamp()": "unix_timestamp",
    "unix_date(current_date)": "current_date",
    "unix_micros('now')": "'now'",
    "CASE WHEN ts > ' Today UTC' THEN 1 ELSE 0 END": "' Today UTC'",
    "unix_date(DATE 'today')": "'today'",
    "cast('epoch' AS timestamp)": "timestamp",
    "unix_micros('no' 'w')": "'no' 'w'",
    "unix_micros(r'now')": "'now'",
    "length(r'x')": "r 'x'",
    "length(input_file_name())": "input_file_name",
    "length(_metadata.file_name)": "_metadata",
    "length(current_user)": "current_user",
    "length(session_user())": "session_user",
    "length(version())": "version",
    "sum(price)": "sum",
    "row_number() OVER (ORDER BY price)": "row_number",
    "explode(quote)": "explode",
    "transform(quote, x -> x)": "->",
    "aggregate(quote, 0, concat)": "aggregate",
    "price -- 1": "--",
    "price /* * */ * 2": "/*",
    "price; DROP TABLE trades": ";",
    "length('\\u0027')": "'",
    "price \\": "\\",
    'price + "volume"': '"',
    "price || volume": "||",
    "price::double": "::",
    "price + :secret": ":",
    "price + ?": "?",
    "price + ${env:HOME}": "$",
    "price => 1": "=",
    "s3://bucket.secret": "s3",
    "quote.reflect('a')": "reflect",
    "price.": "a dot",
    "quote.*": "a dot",
    "ſelect": "ſ",
    "prise * volume": "prise",
    "price + (volume": "too few",
    "price) + (volume": "too many",
    "'it''s'": "'it' 's'",
    "length('unclosed)": "'",
    "`unclosed": "`",
    "1.2.3": "1",
    "0x1F": "0",
    "": "empty",
    " \n ": "empty",
    "try_to_number(side, ai_query('x'))": "try_to_number",
    "abs" * 2_000: "characters long",
    "(" * 60 + "price" + ")" * 60: "nests too deep",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        safe_score(text, COLUMNS)
    assert HOSTILE[text] in caught.value.found


SAFE = {
    "price * volume": None,
    "PRICE * Volume": None,
    " price+1.5e3 - .5 / 2. ": "price+1.5e3 - .5 / 2.",
    "`my col` * 2L": None,
    "order + date": "`order` + `date`",
    "quote.bid - quote.`ask`": None,
    "quote['bid']": None,
    "CASE WHEN side = 'buy' AND price IS NOT NULL THEN price ELSE -price END": None,
    "CAST(price AS DECIMAL(10, 2)) + try_cast(side AS double)": None,
    "if(price BETWEEN 1 AND 2 OR side IN ('a', 'b') OR NOT side LIKE 'x%', 1, 0)": None,
    "greatest(abs(price), sqrt(volume), ln(1 + volume))": None,
    "price % 7 + volume div 2 + (volume & 3 | 4 ^ ~5)": None,
    "coalesce(try_divide(price, volume), 0)": None,
    "unix_micros(ts) - hour(ts)": None,
    "length(upper(trim(side)))": None,
    "price <=> volume": None,
    "double(side)": None,
}


@pytest.mark.parametrize("text", SAFE)
def test_plain_text_passes(text: str) -> None:
    assert safe_score(text, COLUMNS) == (SAFE[text] or text)
    assert safe_score(text) == (SAFE[text] or text)


def test_what_is_refused_says_what_is_allowed() -> None:
    with pytest.raises(QueryError) as caught:
        safe_score("pric * 2", ["price", "volume"])
    assert "price, volume" in caught.value.expected
    assert caught.value.fix == "did you mean 'price'?"
    with pytest.raises(QueryError, match="did you mean 'try_divide'"):
        safe_score("trydivide(price, volume)", ["price", "volume"])


@pytest.mark.spark
def test_spark_evaluates_what_passes(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT 2.5D price, 4 volume, timestamp'2024-01-01' ts, '7' side, "
        "named_struct('bid', 1D, 'ask', 2D) quote, 3 `my col`, 1 `order`, 2 r, 5 `date`"
    )
    expressions = [safe_score(text, rows.columns) for text in SAFE if "[" not in text]
    values = rows.select(*(F.expr(text) for text in expressions)).first()
    assert values is not None
    assert values[0] == 10.0


@pytest.mark.spark
def test_all_allowed_functions_exist_and_are_deterministic(spark: SparkSession) -> None:
    known = {row["function"] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert sorted(FUNCTIONS - known - {"cast", "try_cast"}) == []
    assert spark.conf.get("spark.sql.reflect.allowList") == "^$"


SUGGESTIONS = {
    "price / volume": "price / volume stops the stream when volume is 0: "
    "write try_divide(price, volume)",
    "a + b * c / (d - 1)": "b * c / (d - 1) stops the stream when d - 1 is 0: "
    "write try_divide(b * c, d - 1)",
    "f(a, b) / g.h[1]": "f(a, b) / g.h[1] stops the stream when g.h[1] is 0: "
    "write try_divide(f(a, b), g.h[1])",
    "(a) / (b) / 2": "(a) / (b) stops the stream when b is 0: write try_divide((a), b)",
    "1 / 0": "1 / 0 stops the stream when 0 is 0: write try_divide(1, 0)",
    "a / (b) * (c)": "a / (b) stops the stream when b is 0: write try_divide(a, b)",
    "a % `b c`": "a % `b c` stops the stream when `b c` is 0: write try_mod(a, `b c`)",
    "a DIV b": "a DIV b stops the stream when b is 0: write a div nullif(b, 0)",
    "mod(a, b)": "mod(a, b) stops the stream when b is 0: write try_mod(a, b)",
    "pmod(f(a, 1), b)": "pmod(f(a, 1), b) stops the stream when b is 0: "
    "write pmod(f(a, 1), nullif(b, 0))",
    "CAST(name AS decimal(10, 2))": "CAST(name AS decimal(10, 2)) stops the stream at a value "
    "that is no decimal(10, 2): write try_cast(name AS decimal(10, 2))",
    "cast(name AS double)": "cast(name AS double) stops the stream at a value that is no double: "
    "write try_cast(name AS double)",
    "cast(volume AS int)": "cast(volume AS int) stops the stream at a value that is no int: "
    "write try_cast(volume AS int)",
}
NO_SUGGESTIONS = [
    "price * volume",
    "price / 2",
    "price / -2.5e3",
    "price % 10",
    "pmod(hash(a), 1000)",
    "price / nullif(volume, 0)",
    "try_divide(price, volume)",
    "try_cast(name AS double)",
    "cast(volume AS double)",
    "cast(`volume` AS DOUBLE)",
    "cast(3 AS double)",
    "length('a / b')",
    "/ price",
    "price /",
    "a * (",
    ") / b",
    "mod(",
    "mod()",
    "cast(",
    "cast()",
]


@pytest.mark.parametrize("text", SUGGESTIONS)
def test_what_would_stop_a_stream(text: str) -> None:
    assert suggestion(text, ["volume"]) == SUGGESTIONS[text]


@pytest.mark.parametrize("text", NO_SUGGESTIONS)
def test_what_would_not(text: str) -> None:
    assert suggestion(text, ["Volume"]) is None


@pytest.mark.spark
def test_the_warning_points_at_the_line_of_the_call(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(id) ts, id, double(id) price FROM range(3)")
    options = {"k": 1, "by": "price / id", "time": "ts", "window": "1 hour"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        here = sys._getframe().f_lineno
        top_k(rows, **options)
        rows.transform(top_k, **options)
    places = [
        (Path(warning.filename).name, warning.lineno)
        for warning in caught
        if "try_divide" in str(warning.message)
    ]
    assert places == [("test_scores.py", here + 1), ("test_scores.py", here + 2)]
