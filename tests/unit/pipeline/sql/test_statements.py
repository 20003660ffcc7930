"""Statements of SQL on streams, without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidelog.pipeline.sql.catalog import Catalog, Relation
from tidelog.pipeline.sql.declarations import declared
from tidelog.pipeline.sql.rewriting import named_among, rewritten, tables_of
from tidelog.pipeline.sql.statements import (
    Create,
    Describe,
    Drop,
    Explain,
    Insert,
    Select,
    Set,
    Show,
    SqlError,
    Terminate,
    is_complete,
    parse_script,
)


def parsed(text: str) -> Any:
    (statement,) = parse_script(text)
    return statement


def test_a_stream_has_columns_and_properties() -> None:
    made = parsed(
        "CREATE OR REPLACE STREAM clicks (user VARCHAR, n DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>) "
        "WITH (topic = 'web-clicks', format = json, timestamp = 'at', partitions = 3)"
    )
    assert isinstance(made, Create) and made.kind == "stream" and made.replace and made.query is None
    assert made.columns == (
        ("user", "STRING"),
        ("n", "DECIMAL(10, 2)"),
        ("at", "TIMESTAMP"),
        ("tags", "ARRAY<STRING>"),
    )
    assert made.properties == {"topic": "web-clicks", "format": "json", "timestamp": "at", "partitions": "3"}


def test_a_table_has_a_primary_key() -> None:
    made = parsed(
        "create table if not exists users (id bigint primary key, name string) with (topic='users')"
    )
    assert (made.kind, made.key, made.if_not_exists) == ("table", "id", True)


def test_queries_say_how_they_emit() -> None:
    made = parsed("CREATE TABLE t AS SELECT page, count(*) FROM clicks GROUP BY page EMIT CHANGES")
    assert isinstance(made, Create) and made.query is not None
    assert made.query.emit == "changes" and "EMIT" not in made.query.tree.sql()
    live = parsed("select * from clicks emit final limit 5")
    assert isinstance(live, Select) and (live.query.emit, live.query.limit) == ("final", 5)
    batch = parsed("select * from clicks limit 5")
    assert (batch.query.emit, batch.query.limit) == (None, None) and "LIMIT 5" in batch.query.tree.sql()


def test_inserts_take_values_and_queries() -> None:
    values = parsed("INSERT INTO users (id, name) VALUES (1, 'a;b'), (2, 'c')")
    assert isinstance(values, Insert) and values.columns == ("id", "name") and values.rows is not None
    assert parsed("INSERT INTO t VALUES (1, 'it''s')").rows == "VALUES (1, 'it''s')"
    query = parsed("insert into audit.log select * from clicks emit changes")
    assert query.name == "audit.log" and query.query is not None and query.query.emit == "changes"


def test_the_small_statements() -> None:
    statements = list(
        parse_script(
            "SHOW TOPICS; list queries; DESCRIBE web-clicks; terminate all; TERMINATE totals;\n"
            "DROP STREAM IF EXISTS x DELETE TOPIC; SET 'spark.sql.ansi.enabled' = 'false'; -- the end\n"
            "EXPLAIN SELECT 1;"
        )
    )
    assert statements[:6] == [
        Show("topics"),
        Show("queries"),
        Describe("web-clicks"),
        Terminate(None),
        Terminate("totals"),
        Drop("stream", "x", True, True),
    ]
    assert statements[6] == Set("spark.sql.ansi.enabled", "false") and isinstance(statements[7], Explain)
    assert parsed("SET spark.sql.shuffle.partitions = 4") == Set("spark.sql.shuffle.partitions", "4")
    assert parsed("SET spark.sql.session.timeZone = 'UTC'") == Set("spark.sql.session.timeZone", "UTC")
    assert parsed("SET a.b = -1 ms") == Set("a.b", "-1 ms")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("selec 1", 1, 1, "a statement begins with SELECT"),
        ("show\n  me", 2, 3, "SHOW TOPICS, STREAMS, TABLES or QUERIES, not 'me'"),
        ("SELECT 1;\nselect a from\n  where x", 3, 3, "Expected table name at 'where'"),
        ("create index v", 1, 8, "CREATE STREAM or CREATE TABLE, not 'index'"),
        ("create stream x with (topic", 1, 28, "= is expected here, and the statement ends"),
        ("create stream x (a) with (topic='t')", 1, 17, "columns are names and types"),
        ("select * from t emit nothing", 1, 22, "EMIT CHANGES or EMIT FINAL, not 'nothing'"),
        ("describe a b", 1, 12, "the statement should end here, not 'b'"),
        ("select 'abc", 1, 11, "a quote or comment is not closed"),
        ("select a from t emit changes limit x", 1, 36, "a number of rows is expected here, not 'x'"),
        ("set a =", 1, 8, "a value is expected here, and the statement ends"),
    ],
)
def test_errors_say_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        list(parse_script(text))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in str(caught.value) and str(caught.value).startswith(f"line {line}, column {column}: ")


def test_a_statement_is_complete_at_its_semicolon() -> None:
    assert is_complete("select 1;") and is_complete("select 1; -- done")
    assert not is_complete("select ';") and not is_complete("select 1") and not is_complete("")


HIDDEN = ("_key", "_partition", "_offset")


def as_spark_has_it(text: str) -> str:
    query = parsed(text).query
    views = [(table, f"v{number}") for number, table in enumerate(tables_of(query))]
    return rewritten(query, views, named_among(query, HIDDEN))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'it''s; ok' AS s, \"a\"\"b\", 'a\\'b', r'a\\n'",
        "SELECT date_format(a, 'yyyy-MM-dd'), a  <=> b, x :: int FROM range(5) -- all of them",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t WHERE n<3) SELECT * FROM t",
    ],
)
def test_a_query_without_relations_stays_as_it_is(text: str) -> None:
    assert as_spark_has_it(text) == text.split(" --")[0]


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("select a.x FROM a WHERE x='a'", "select a.x FROM `v0` AS `a` WHERE x='a'"),
        ("SELECT 1;\n SELECT * FROM `x-y` z", "SELECT * FROM `v0` z"),
        ("SELECT x FROM a.b.c, d", "SELECT x FROM `v0` AS `c`, `v1` AS `d`"),
        ("SELECT * FROM a VERSION AS OF 3 b", "SELECT * FROM `v0`  b"),
        (
            "SELECT * FROM a FOR VERSION BETWEEN 1 AND 2 TABLESAMPLE (5 ROWS) WHERE x",
            "SELECT * FROM `v0`  TABLESAMPLE (5 ROWS) AS `a` WHERE x",
        ),
        (
            "WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a) SELECT * FROM a, b",
            "WITH a AS (SELECT * FROM `v0` AS `a`), b AS (SELECT * FROM a) SELECT * FROM a, b",
        ),
    ],
)
def test_relations_become_views_and_nothing_else_changes(text: str, rewritten: str) -> None:
    last = text.split(";\n")[-1].strip()
    assert as_spark_has_it(last) == rewritten


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        (
            "SELECT *, _offset FROM a WHERE _key = '*'",
            "SELECT * EXCEPT (`a`.`_key`, `a`.`_offset`), _offset FROM `v0` AS `a` WHERE _key = '*'",
        ),
        ("SELECT * FROM (SELECT _offset FROM a)", "SELECT * FROM (SELECT _offset FROM `v0` AS `a`)"),
        (
            "SELECT b.*, a.x FROM a JOIN c b ON a._key = b._key",
            "SELECT b.* EXCEPT (`b`.`_key`), a.x FROM `v0` AS `a` JOIN `v1` b ON a._key = b._key",
        ),
        ("SELECT * EXCEPT (_offset) FROM a", "SELECT * EXCEPT (_offset) FROM `v0` AS `a`"),
        (
            "SELECT * EXCEPT (x) FROM a ORDER BY _offset",
            "SELECT * EXCEPT (`a`.`_offset`, x) FROM `v0` AS `a` ORDER BY _offset",
        ),
        (
            "SELECT * FROM a LEFT SEMI JOIN b ON a._key = b._key",
            "SELECT * EXCEPT (`a`.`_key`) FROM `v0` AS `a` LEFT SEMI JOIN `v1` AS `b` ON a._key = b._key",
        ),
        ("SELECT * FROM a JOIN b USING (_key)", "SELECT * FROM `v0` AS `a` JOIN `v1` AS `b` USING (_key)"),
        ("SELECT count(*) FROM a WHERE _offset > 1", "SELECT count(*) FROM `v0` AS `a` WHERE _offset > 1"),
        ("SELECT '_offset', * FROM a", "SELECT '_offset', * FROM `v0` AS `a`"),
    ],
)
def test_a_star_leaves_out_what_belongs_to_the_record(text: str, rewritten: str) -> None:
    assert as_spark_has_it(text) == rewritten


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a INT) WITH (watermark = 'soon')", "watermark: 'soon' is not a duration"),
        ("(a INT) WITH (watermark = 'nan minutes')", "'nan minutes' is not a duration"),
        ("(a INT) WITH (starting = 'whenever')", "'starting' cannot be 'whenever'"),
        ('(a INT) WITH (starting = \'{"y": "latest"}\')', "names topic 'y', and topic 'x' is read"),
        ("(_offset INT)", "every record has a column '_offset'"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=re.escape(message)):
        declared(parsed(f"CREATE STREAM x {text}"))


def test_a_catalog_is_there_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "catalog.json"
    users = Relation("table", "Users", "users", "json", (("id", "BIGINT"), ("name", "STRING")), "id")
    Catalog(file).add(users)
    again = Catalog(file)
    assert again.get("USERS") == users and list(again) == [users]
    again.remove("users")
    assert list(Catalog(file)) == []
    file.write_text("[{]")
    with pytest.raises(SqlError, match="is damaged"):
        Catalog(file)
