"""SQL on real topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.process import wait_until
from tests.pipeline.records import pairs, rows, send
from tests.pipeline.test_streams import order
from tidelog import Admin, Producer
from tidelog.pipeline import Pipeline
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine, Notice
from tidelog.pipeline.sql.statements import SqlError

pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time


class Shell:
    def __init__(self, engine: Engine, names: dict[str, str]) -> None:
        self.engine = engine
        self.names = names

    def __call__(self, text: str) -> Any:
        """Runs statements, with the names of topics filled in; returns the result of the last statement."""
        for name, topic in self.names.items():
            text = text.replace(f"${name}", topic)
        result = self.engine.script(text)[-1]
        return result.text if isinstance(result, Notice) else list(result.rows)

    def refused(self, text: str) -> str:
        with pytest.raises(SqlError) as caught:
            self(text)
        return str(caught.value)


@pytest.fixture(scope="module")
def sql(spark: Any, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    import uuid

    from tests.conformance.topics import create_topic

    prefix = f"q-{uuid.uuid4().hex[:8]}"
    names = {name: f"{prefix}-{name}" for name in ("orders", "customers", "totals", "copy")}
    create_topic(bootstrap, names["orders"], 2, None)
    send(bootstrap, names["orders"], [order(number) for number in range(10)], key="customer")
    folder = tmp_path_factory.mktemp("sql")
    pipeline = Pipeline("sql", bootstrap=bootstrap, checkpoint=str(folder / "cp"), spark=spark)
    shell = Shell(Engine(pipeline, catalog=Catalog(folder / "catalog.json"), until_done=True), names)
    shell(
        """
        CREATE STREAM orders (id INT, customer STRING, amount DOUBLE, at TIMESTAMP)
          WITH (topic = '$orders', timestamp = 'at', watermark = '1 minute');
        CREATE TABLE customers (customer STRING PRIMARY KEY, name STRING) WITH (topic = '$customers', partitions = 2);
        INSERT INTO customers VALUES ('c0', 'Ann'), ('c1', 'Bob'), ('c1', 'Rob');
        """
    )
    return shell


def test_topics_are_tables_without_a_word(sql: Shell) -> None:
    selected = sql("SELECT key, value, _offset FROM `$orders` WHERE _partition = 0 ORDER BY _offset LIMIT 1")
    assert selected[0][0].startswith("c") and '"customer"' in selected[0][1] and selected[0][2] == 0


def test_the_past_is_queried(sql: Shell) -> None:
    assert sql("SELECT customer, sum(amount) AS total FROM orders GROUP BY customer ORDER BY 1") == [
        ("c0", 27.0),
        ("c1", 18.0),
        ("c2", 22.5),
    ]
    assert len(sql("SELECT * FROM orders WHERE id = 3")[0]) == 4  # no columns of the record
    assert sql("WITH a AS (SELECT id FROM orders WHERE id > 8) SELECT * FROM a") == [(9,)]


def test_text_reaches_spark_as_it_was_written(sql: Shell, bootstrap: str) -> None:
    assert sql("SELECT 'it''s; ok', \"a\"\"b\", count(*) FROM orders") == [("it's; ok", 'a"b', 10)]
    sql("INSERT INTO customers VALUES ('c9', 'O''Brien')")
    assert sql("SELECT name FROM customers WHERE name = 'O''Brien'") == [("O'Brien",)]
    send(bootstrap, sql.names["customers"], [("c9", None)])
    assert sql("SET spark.sql.ansi.enabled = true") == "spark.sql.ansi.enabled is true"


def test_columns_of_the_record_are_there_when_they_are_named(sql: Shell) -> None:
    sql("CREATE STREAM named (id INT, customer STRING) WITH (topic = '$orders')")
    assert sorted(sql("SELECT *, _offset FROM named WHERE id < 2"))[0][:2] == (0, "c0")
    assert {len(row) for row in sql("SELECT *, _offset FROM named")} == {3}
    assert {len(row) for row in sql("SELECT * FROM (SELECT _offset, id FROM named)")} == {2}
    joined = sql(
        "SELECT n.*, c.* FROM named n JOIN customers c ON CAST(n._key AS STRING) = c.customer LIMIT 1"
    )
    assert len(joined[0]) == 4
    assert len(sql("SELECT * FROM named n LEFT SEMI JOIN customers c ON n._key = c._key LIMIT 1")[0]) == 2
    assert "every record has a column '_offset'" in sql.refused(
        "CREATE STREAM numbered AS SELECT id, _offset FROM named"
    )


def test_the_latest_of_a_key_goes_by_offset(sql: Shell, bootstrap: str, topic: Any) -> None:
    late = topic(config={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for name, at in (("Bob", 1_700_000_000_000), ("Rob", 1_600_000_000_000)):
            producer.send(late, b'{"name": "%s"}' % name.encode(), key=b"c", timestamp=at)
    sql(f"CREATE TABLE late (id STRING PRIMARY KEY, name STRING) WITH (topic = '{late}')")
    assert sql("SELECT * FROM late") == [("c", "Rob")], "compaction would keep another"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({late: 2})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(late, b'{"name": "Eve"}', key=b"c", timestamp=1_750_000_000_000, partition=1)
    assert sql("SELECT * FROM late") == [("c", "Eve")], "the offsets of two partitions tell nothing"
    sql("DROP TABLE late")


def test_time_travel(sql: Shell) -> None:
    assert {row[0] for row in sql("SELECT _offset FROM orders FOR VERSION FROM 1 TO 3")} == {1, 2}
    assert {row[0] for row in sql("SELECT _offset FROM orders VERSION AS OF 1")} == {0, 1}
    assert {row[0] for row in sql("SELECT _offset FROM orders FOR VERSION BETWEEN 2 AND 2")} == {2}
    assert sql("SELECT id FROM orders TIMESTAMP AS OF '2001-01-01'") == []
    assert len(sql("SELECT id FROM orders FOR TIMESTAMP FROM '2001-01-01' TO '2101-01-01'")) == 10
    assert "does not go with EMIT CHANGES" in sql.refused("SELECT * FROM orders VERSION AS OF 1 EMIT CHANGES")


def test_a_table_is_the_latest_of_each_key(sql: Shell) -> None:
    assert sql("SELECT * FROM customers ORDER BY 1") == [("c0", "Ann"), ("c1", "Rob")]
    # Tables remember what they were: the first version of Bob is offset 0 or 1 of his partition.
    assert ("c1", "Bob") in sql("SELECT * FROM customers VERSION AS OF 0") + sql(
        "SELECT * FROM customers VERSION AS OF 1"
    )


def test_rows_are_watched_as_they_come(sql: Shell) -> None:
    assert len(sql("SELECT id FROM orders EMIT CHANGES LIMIT 4")) == 4
    assert sql("SELECT id FROM orders EMIT CHANGES LIMIT 0") == []
    joined = sql("SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.customer EMIT CHANGES")
    assert sorted(joined) == [(n, "Ann" if n % 3 == 0 else "Rob") for n in range(10) if n % 3 < 2]


def test_queries_go_on_as_topics(sql: Shell, bootstrap: str) -> None:
    message = sql(
        """
        CREATE TABLE totals WITH (topic = '$totals') AS
        SELECT customer, window(at, '5 minutes').start AS begin, sum(amount) AS total
        FROM orders GROUP BY customer, window(at, '5 minutes') EMIT FINAL
        """
    )
    assert "by query totals" in message
    sql.engine.wait()
    totals = dict(pairs(bootstrap, sql.names["totals"]))
    key = '{"customer":"c0","begin":"2026-01-01T00:00:00.000Z"}'
    assert totals[key]["total"] == 4.5 and len(totals) == 3
    assert ("totals", sql.names["totals"], "ended") in sql("SHOW QUERIES")
    assert [row[1:] for row in sql("DESCRIBE totals")][:2] == [("string", ""), ("timestamp", "")]
    assert "TERMINATE it first" in sql.refused("DROP TABLE totals")
    assert sql("TERMINATE totals") == "terminated totals"
    assert sql("DROP TABLE totals DELETE TOPIC") == "table totals dropped"
    assert sql.names["totals"] not in {name for name, _ in sql("SHOW TOPICS")}


def test_what_is_created_again_begins_anew(sql: Shell, bootstrap: str, topic: Any) -> None:
    again = topic()
    create = f"CREATE STREAM again WITH (topic = '{again}') AS SELECT id FROM orders WHERE id < 3"
    for _ in range(2):
        sql(create)
        sql.engine.wait()
        assert sorted(row["id"] for row in rows(bootstrap, again)) == [0, 1, 2]
        sql("TERMINATE ALL; DROP STREAM again DELETE TOPIC")


def test_what_replaces_a_query_stops_it_and_goes_on(sql: Shell, bootstrap: str, topic: Any) -> None:
    source, target = topic(), topic()
    send(bootstrap, source, [{"id": 1}])
    engine = sql.engine
    engine._until_done = False
    try:
        sql(f"CREATE STREAM source (id INT) WITH (topic = '{source}')")
        as_select = f"STREAM target WITH (topic = '{target}') AS SELECT"
        sql(f"CREATE {as_select} id, 'old' AS by FROM source")
        wait_until(lambda: len(rows(bootstrap, target)) == 1, 120, "the first row")
        assert "stream target already exists" in sql.refused(f"CREATE {as_select} id FROM source")
        sql(f"CREATE OR REPLACE {as_select} id, 'new' AS by FROM source")
        assert [row[::2] for row in sql("SHOW QUERIES")] == [("target", "running")]
        send(bootstrap, source, [{"id": 2}])
        wait_until(lambda: len(rows(bootstrap, target)) == 2, 120, "the second row")
        assert rows(bootstrap, target) == [{"id": 1, "by": "old"}, {"id": 2, "by": "new"}]
        sql("TERMINATE ALL; DROP STREAM target; DROP STREAM source")
    finally:
        engine._until_done = True
        engine.stop()


def test_what_is_selected_is_inserted(sql: Shell, bootstrap: str) -> None:
    sql("CREATE STREAM copy (id BIGINT, who STRING) WITH (topic = '$copy', key = 'who')")
    message = sql("INSERT INTO copy SELECT id, customer FROM orders WHERE id < 3")
    assert message == f"3 records written to {sql.names['copy']}"
    assert ("c1", {"id": 1, "who": "c1"}) in pairs(bootstrap, sql.names["copy"])
    assert "has 2: id, who" in sql.refused("INSERT INTO copy SELECT id FROM orders")
    assert sorted(row["id"] for row in rows(bootstrap, sql.names["copy"])) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT sum(total) FROM orders",
            "line 1, column 12: A column, variable, or function parameter with name `total`",
        ),
        (
            "SELECT *\nFROM ordres",
            "line 2, column 6: there is no stream, table or topic 'ordres': did you mean 'orders'?",
        ),
        ("CREATE STREAM orders (a INT)", "stream orders already exists"),
        ("CREATE STREAM x (a INT) WITH (topik = 'y')", "there is no property 'topik'"),
        ("CREATE TABLE x (a INT)", "table x needs a key"),
        ("CREATE STREAM x (a INT) WITH (format = 'xml')", "the format is one of json"),
        ("CREATE STREAM x (a INT) WITH (timestamp = 'b')", "'b' is not among the columns: a"),
        ("DESCRIBE nothing", "there is no stream, table or topic 'nothing'"),
        ("TERMINATE nothing", "there is no query 'nothing'"),
        ("DROP STREAM nothing", "there is no stream 'nothing'"),
        ("SELECT 1 EMIT CHANGES", "needs a stream, table or topic"),
        ("INSERT INTO nothing VALUES (1)", "to insert into"),
    ],
)
def test_mistakes_are_told_with_their_place(sql: Shell, text: str, message: str) -> None:
    assert message in sql.refused(text)


def test_the_catalog_shows_and_explains(sql: Shell) -> None:
    assert ("orders", sql.names["orders"], "json", None) in sql("SHOW STREAMS")
    assert [row[0] for row in sql("SHOW TABLES")] == ["customers"]
    assert "Physical Plan" in sql("EXPLAIN SELECT id FROM orders")
    assert sql("CREATE STREAM IF NOT EXISTS orders (a INT)") == "stream orders already exists"


def test_files_define_and_do_not_start(spark: Any, bootstrap: str, sql: Shell, tmp_path: Path) -> None:
    pipeline = Pipeline("file", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    engine = Engine(pipeline, starting=False, catalog=Catalog())
    script = f"""
    CREATE STREAM orders (id INT, customer STRING) WITH (topic = '{sql.names["orders"]}');
    CREATE STREAM big AS SELECT id FROM orders WHERE id > 5;
    """
    engine.script(script, "shop.sql")
    assert list(pipeline.outputs()) == ["big"] and not pipeline.queries
    engine.script("CREATE OR REPLACE STREAM big AS SELECT id FROM orders WHERE id > 6")
    assert list(pipeline.outputs()) == ["big"]
    with pytest.raises(SqlError, match=r"shop\.sql: line 1, column 15: there is no stream"):
        engine.script("SELECT * FROM nowhere", "shop.sql")
    with pytest.raises(SqlError, match="shows rows to a person"):
        engine.script("SELECT * FROM orders EMIT CHANGES")


def test_words_of_ksqldb_are_understood(sql: Shell, bootstrap: str) -> None:
    columns = "id INT KEY, who STRUCT<name VARCHAR>"
    sql(f"CREATE STREAM people ({columns}) WITH (KAFKA_TOPIC = '$orders-named', VALUE_FORMAT = 'JSON')")
    for number, name in ((1, "Ann"), (2, "Bob"), (1, "Cid")):
        sql(f"INSERT INTO people VALUES ({number}, named_struct('name', '{name}'))")
    assert sql("SELECT id, LATEST_BY_OFFSET(who->name) AS name FROM people GROUP BY id ORDER BY id") == [
        (1, "Cid"),
        (2, "Bob"),
    ]
    sql(
        "CREATE TABLE last AS SELECT id, EARLIEST_BY_OFFSET(who->name) AS first FROM people GROUP BY id EMIT CHANGES"
    )
    sql.engine.wait()
    assert pairs(bootstrap, "last") == [("1", {"id": 1, "first": "Ann"}), ("2", {"id": 2, "first": "Bob"})]
    sql("CREATE STREAM by_name AS SELECT id, who->name AS name FROM people PARTITION BY name EMIT CHANGES")
    sql.engine.wait()
    assert sorted(key for key, _ in pairs(bootstrap, "by_name")) == ["Ann", "Bob", "Cid"]  # type: ignore[type-var]
    assert "note" in sql("ALTER STREAM people ADD COLUMN note STRING")
    assert sql("SELECT note FROM people WHERE id = 2") == [(None,)]
    assert "already has a column 'note'" in sql.refused("ALTER STREAM people ADD note STRING")
    details = {(name, value) for name, value, about in sql("DESCRIBE EXTENDED by_name") if about != ""}
    assert {
        ("topic", "by_name"),
        ("format", "json"),
        ("key", "name"),
        ("partitions", "1"),
        ("query", "by_name"),
    } <= details
    assert sorted(row[1] for row in sql("PRINT by_name FROM BEGINNING")) == ["Ann", "Bob", "Cid"]
    assert sql.refused("SELECT ROWTIME FROM people") == "line 1, column 8: ROWTIME is _timestamp here"
