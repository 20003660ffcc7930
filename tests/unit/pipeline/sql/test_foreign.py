"""Statements of ksqlDB and Flink SQL: understood, or answered with the words to use here."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.pipeline.sql.rewriting import named_among, rewritten
from tidelog.pipeline.sql.statements import Alter, Create, Describe, Select, SqlError, parse_script


def parsed(text: str) -> Any:
    [statement] = parse_script(text)
    return statement


def test_a_stream_of_ksqldb_is_declared() -> None:
    text = """
        CREATE STREAM s (id VARCHAR KEY, key STRING, amount DECIMAL(4,2), a STRUCT<x INTEGER, y ARRAY<VARCHAR>>)
          WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'AVRO', PARTITIONS = 3);
    """
    statement = parsed(text)
    assert statement == Create(
        "stream",
        "s",
        (
            ("id", "STRING"),
            ("key", "STRING"),
            ("amount", "DECIMAL(4, 2)"),
            ("a", "STRUCT<x: INT, y: ARRAY<STRING>>"),
        ),
        "id",
        {"topic": "orders", "format": "AVRO", "partitions": "3"},
        None,
        replace=False,
        if_not_exists=False,
    )


def test_a_table_of_flink_is_declared() -> None:
    properties = "'connector' = 'kafka', 'topic' = 'o', 'scan.startup.mode' = 'earliest-offset'"
    assert parsed(f"CREATE TABLE t (id INT PRIMARY KEY) WITH ({properties})").properties == {
        "topic": "o",
        "starting": "earliest",
    }


@pytest.mark.parametrize("emit", ["", " EMIT CHANGES"])
def test_partition_by_chooses_the_key(emit: str) -> None:
    statement = parsed(f"CREATE STREAM x AS SELECT id, name FROM s PARTITION BY name{emit}")
    assert statement.key == "name" and statement.query.text[: statement.query.end].endswith("FROM s")
    over = parsed("CREATE STREAM x AS SELECT rank() OVER (PARTITION BY name) FROM s")
    assert over.key is None


def test_other_statements() -> None:
    assert parsed("ALTER STREAM s ADD COLUMN a INT, ADD b ARRAY<VARCHAR>") == Alter(
        "stream", "s", (("a", "INT"), ("b", "ARRAY<STRING>"))
    )
    assert parsed("DESCRIBE EXTENDED s") == parsed("DESCRIBE s EXTENDED") == Describe("s", extended=True)
    assert parsed("DESCRIBE extended") == Describe("extended")
    printed = parsed("PRINT 'web-clicks' FROM BEGINNING LIMIT 3")
    assert isinstance(printed, Select) and printed.query.emit == "changes" and printed.query.limit == 3
    assert printed.query.tree.sql("spark").endswith("FROM `web-clicks`")


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        (
            "SELECT id, LATEST_BY_OFFSET(name) AS n FROM s GROUP BY id",
            "SELECT id, max_by(name, `_offset`) FILTER (WHERE name IS NOT NULL) AS n FROM s GROUP BY id",
        ),
        (
            "SELECT earliest_by_offset(a.x + (1)) FROM s a",
            "SELECT min_by(a.x + (1), a.`_offset`) FILTER (WHERE a.x + (1) IS NOT NULL) FROM s a",
        ),
        (
            "SELECT LATEST_BY_OFFSET(a->b) FROM s",
            "SELECT max_by(a.b, `_offset`) FILTER (WHERE a.b IS NOT NULL) FROM s",
        ),
        ("SELECT address->city->name FROM s", "SELECT address.city.name FROM s"),
        ("SELECT transform(xs, x -> x + 1) FROM s", "SELECT transform(xs, x -> x + 1) FROM s"),
    ],
)
def test_functions_and_fields_of_ksqldb_reach_spark_in_its_words(text: str, spark: str) -> None:
    query = parsed(text).query
    assert rewritten(query, [], ()) == spark
    assert ("_offset" in named_among(query, ["_offset"])) == ("by_offset" in text.lower())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "CREATE SINK CONNECTOR c WITH (a = 'b')",
            "line 1, column 1: connectors are no statements here: `tidelog connect`",
        ),
        ("SHOW CONNECTORS", "`tidelog connect` runs them"),
        ("PAUSE x", "TERMINATE it"),
        ("UPDATE t SET a = 1", "INSERT INTO a table a row with the same key"),
        ("RUN SCRIPT 'x.sql'", "tidelog sql -f FILE"),
        ("INSERT OVERWRITE t SELECT 1", "INSERT INTO adds records"),
        (
            "SELECT page, count(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY page EMIT CHANGES",
            "line 1, column 30: a window is a function in GROUP BY: GROUP BY ..., window(at, '1 hour')",
        ),
        (
            "SELECT 1 FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES) GROUP BY a",
            "window(at, '1 hour', '5 minutes')",
        ),
        ("SELECT 1 FROM s WINDOW SESSION (30 MINUTES) GROUP BY a", "session_window(at, '30 minutes')"),
        (
            "SELECT 1 FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '5' MINUTES))",
            "window(at, '5 minutes')",
        ),
        (
            "SELECT 1 FROM a JOIN b WITHIN 7 DAYS ON a.id = b.id",
            "b.at BETWEEN a.at - INTERVAL 7 DAYS AND a.at + INTERVAL 7 DAYS",
        ),
        ("SELECT 1 FROM o JOIN r FOR SYSTEM_TIME AS OF o.at ON o.c = r.c", "leave FOR SYSTEM_TIME AS OF out"),
        ("SELECT 1 FROM s MATCH_RECOGNIZE (PATTERN (A))", ".process(function)"),
        ("CREATE STREAM s (a INT) WITH ('connector' = 'jdbc')", "`tidelog connect` moves records"),
        ("CREATE STREAM s (a INT) WITH (key_format = 'json')", "leave key_format out"),
        ("CREATE STREAM s (a INT) WITH (kafka_topic = 'a', topic = 'b')", "topic is given twice"),
        ("PRINT s", "`tidelog consume s` shows new records only"),
        ("SELECT latest_by_offset(x, 3) FROM s", "has one argument here"),
    ],
)
def test_the_answer_says_what_to_write(text: str, answer: str) -> None:
    with pytest.raises(SqlError) as caught:
        statement = parsed(text)
        rewritten(statement.query, [], ())
    assert answer in str(caught.value)
