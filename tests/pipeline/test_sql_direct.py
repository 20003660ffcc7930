"""Simple queries without Spark return what Spark returns, and queries that could differ go to Spark."""

from __future__ import annotations

import datetime
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.records import send
from tests.unit.cli.commands import TIDELOG
from tidelog import Producer
from tidelog.pipeline import Pipeline
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine, Rows
from tidelog.pipeline.sql.statements import SqlError

pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time

RECORDS = 700  # more than a tail's first look


class WithoutSpark(Pipeline):
    @property
    def spark(self) -> Any:
        raise AssertionError("Spark was asked")


class Engines:
    """The same catalog twice: with Spark, and for queries that must not need Spark."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path, topic: str) -> None:
        catalog = Catalog(folder / "catalog.json")
        self.topic = topic
        self.spark = Engine(Pipeline("sql", bootstrap=bootstrap, spark=spark), catalog=catalog)
        self.direct = Engine(WithoutSpark("direct", bootstrap=bootstrap), catalog=catalog, direct=True)

    def rows(self, engine: Engine, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        result = engine.script(text.replace("$t", f"`{self.topic}`"))[-1]
        assert isinstance(result, Rows)
        return result.columns, [tuple(_comparable(cell) for cell in row) for row in result.rows]


def _comparable(cell: Any) -> Any:
    return bytes(cell) if isinstance(cell, bytearray) else cell


@pytest.fixture(scope="module")
def engines(spark: Any, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Engines:
    from tests.conformance.topics import create_topic

    topic = f"direct-{time.time_ns()}"
    create_topic(bootstrap, topic, 3, {"retention.ms": "-1"})
    begin = datetime.datetime(2026, 3, 29, tzinfo=datetime.UTC)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            at = begin + datetime.timedelta(seconds=number * 700)
            row = {
                "id": number,
                "name": None if number % 11 == 0 else f"näme-{number % 7}",
                "amount": number / 4 if number % 5 else None,
                "good": number % 2 == 0,
                "at": at.isoformat().replace("+00:00", "Z"),
            }
            key = None if number % 13 == 0 else b"k%d" % (number % 40)
            value = None if number % 17 == 0 else json.dumps(row).encode()
            producer.send(topic, value, key=key, timestamp=int(at.timestamp() * 1000))
        producer.flush()
    engines = Engines(spark, bootstrap, tmp_path_factory.mktemp("direct"), topic)
    columns = "id BIGINT, name STRING, amount DOUBLE, good BOOLEAN, at TIMESTAMP"
    engines.spark.script(f"CREATE STREAM s ({columns}) WITH (topic = '{topic}')")
    engines.spark.script(f"CREATE TABLE k (who STRING PRIMARY KEY, {columns}) WITH (topic = '{topic}')")
    engines.spark.script(
        f"CREATE TABLE plain (name STRING, content STRING) WITH (topic = '{topic}', format = 'text', key = 'name')"
    )
    engines.spark.script(f"CREATE STREAM raw (k BINARY, v BINARY) WITH (topic = '{topic}', format = 'bytes')")
    return engines


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM $t",
        "SELECT key, value, _offset FROM $t WHERE _partition = 1 ORDER BY _offset LIMIT 4",
        "SELECT t.key AS who, _key, _topic, _timestamp FROM $t t WHERE key = 'k7' AND _offset >= 3",
        "SELECT key FROM $t WHERE NOT key = 'k7' OR key IS NULL",
        "SELECT key, _offset FROM $t WHERE key IN ('k1', 'k22') AND _partition IN (0, 2)",
        "SELECT key FROM $t WHERE NOT key IN ('k1', 'k22')",
        "SELECT key FROM $t WHERE key LIKE 'k1%' OR key LIKE '%9' OR value LIKE '%näme-3%' OR key LIKE 'k5'",
        "SELECT key FROM $t WHERE key NOT LIKE 'k%'",
        "SELECT key FROM $t WHERE key IS NOT NULL AND key NOT BETWEEN 'k2' AND 'k8' AND key NOT IN ('k9')",
        "SELECT key FROM $t WHERE key BETWEEN 'k2' AND 'k3'",
        "SELECT key, _offset FROM $t WHERE 10 > _offset AND _offset != 5",
        "SELECT count(*) FROM $t",
        "SELECT count(*) AS n, count(key), min(_offset), max(_timestamp) FROM $t WHERE key > 'k3'",
        "SELECT count(*), sum(_offset) AS total, min(_offset) FROM $t WHERE key = 'nobody'",
        "SELECT key, count(*) AS n FROM $t GROUP BY key",
        "SELECT _partition, key, max(_offset) AS last FROM $t WHERE value IS NOT NULL GROUP BY _partition, key",
        "SELECT _timestamp, count(*) FROM $t WHERE _timestamp < '2026-03-29T06:00:00Z' GROUP BY _timestamp",
        "SELECT _timestamp FROM $t WHERE _timestamp >= '2026-04-03'",
        "SELECT _offset FROM $t WHERE _timestamp = TIMESTAMP '2026-03-29T00:11:40Z'",
        "SELECT key AS value, _offset FROM $t ORDER BY value DESC, _partition, _offset",
        "SELECT _partition, _offset FROM $t ORDER BY _offset DESC, _partition LIMIT 7",
        "SELECT * FROM s",
        "SELECT name, id FROM s ORDER BY name, id DESC LIMIT 60",
        "SELECT id FROM s WHERE amount >= 100.5 AND NOT good AND at < '2026-04-01T00:00:00Z'",
        "SELECT id FROM s WHERE amount = 0.25 OR id = -1 OR good = true AND id < 9",
        "SELECT name, count(*), count(amount), min(id), max(at), sum(id) FROM s GROUP BY name",
        "SELECT good, count(1) AS n FROM s GROUP BY good",
        "SELECT at, _offset FROM s WHERE id = 42",
        "SELECT * FROM k",
        "SELECT * FROM k WHERE who = 'k7'",
        "SELECT count(*) FROM k WHERE good",
        "SELECT name, content, _offset FROM plain ORDER BY name",
        "SELECT * FROM raw WHERE _offset < 3",
        "SELECT id FROM s WHERE id = 5 LIMIT 0",
    ],
)
def test_an_answer_without_spark_is_sparks_answer(engines: Engines, text: str) -> None:
    columns, rows = engines.rows(engines.direct, text)
    expected_columns, expected = engines.rows(engines.spark, text)
    assert columns == expected_columns
    if "ORDER BY" not in text:
        rows, expected = sorted(rows, key=repr), sorted(expected, key=repr)
    assert rows == expected


@pytest.mark.parametrize("limit", [1, 5, 300, 699])
def test_a_tail_reads_back_until_there_are_enough_rows(engines: Engines, limit: int) -> None:
    text = f"SELECT _offset FROM $t WHERE key = 'k3' ORDER BY _offset DESC LIMIT {limit}"
    assert engines.rows(engines.direct, text) == engines.rows(engines.spark, text)


def test_a_limit_without_an_order_returns_as_many_rows(engines: Engines) -> None:
    for text in ("SELECT * FROM $t LIMIT 5", "SELECT id FROM s WHERE id > 100 LIMIT 5"):
        assert len(engines.rows(engines.direct, text)[1]) == 5


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(key) FROM $t",
        "SELECT key FROM $t WHERE key = 5",
        "SELECT DISTINCT key FROM $t",
        "SELECT count(DISTINCT key) FROM $t",
        "SELECT sum(amount) FROM s",
        "SELECT * FROM $t VERSION AS OF 3",
        "SELECT a.id FROM s a JOIN s b ON a.id = b.id",
        "SELECT key FROM (SELECT key FROM $t)",
        "SELECT key FROM $t ORDER BY key NULLS LAST",
        "SELECT id FROM s WHERE amount > 100000000000000000000",
        "SELECT key, rank() OVER (ORDER BY _offset) FROM $t",
        "SELECT key FROM $t WHERE key LIKE 'k_'",
        "SELECT key FROM $t WHERE key LIKE ANY ('k1')",
        "SELECT key FROM $t WHERE key IN ('k1', value)",
        "SELECT id FROM s WHERE good IS NOT TRUE",
        "SELECT key FROM $t WHERE key RLIKE 'k.'",
        "SELECT ID FROM s",
    ],
)
def test_other_queries_go_to_spark(engines: Engines, text: str) -> None:
    with pytest.raises(AssertionError, match="Spark was asked"):
        engines.rows(engines.direct, text)


@pytest.mark.parametrize(
    "value", [b'{"id": "7"}', b'{"id": 1.0}', b"{", b"[]", b'{"id": NaN}', b"7", b"", b"\xff"]
)
def test_values_that_need_a_conversion_are_left_to_spark(
    engines: Engines, bootstrap: str, value: bytes, topic: Any
) -> None:
    name = topic()
    send(bootstrap, name, [{"id": 1}, value])
    engines.direct.script(f"CREATE OR REPLACE STREAM odd (id BIGINT) WITH (topic = '{name}')")
    with pytest.raises(AssertionError, match="Spark was asked"):
        engines.rows(engines.direct, "SELECT * FROM odd")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT upper(nmae) FROM s", "line 1, column 14: s has no column 'nmae': did you mean 'name'?"),
        (
            "SELECT id FROM s WHERE _ofset = 3",
            "line 1, column 24: s has no column '_ofset': did you mean '_offset'?",
        ),
        (
            "SELECT 1 FROM s JOIN raww",
            "line 1, column 22: there is no stream, table or topic 'raww': did you mean 'raw'?",
        ),
        (
            "INSERT INTO s SELECT * FROM plian",
            "line 1, column 29: there is no stream, table or topic 'plian': did you mean 'plain'?",
        ),
    ],
)
def test_a_mistyped_name_is_an_error_before_spark_starts(engines: Engines, text: str, error: str) -> None:
    with pytest.raises(SqlError) as caught:
        engines.direct.script(text)
    assert str(caught.value) == error


def test_text_that_is_not_utf8_reads_as_in_spark(engines: Engines, bootstrap: str, topic: Any) -> None:
    name = topic()
    send(bootstrap, name, [b"\xff\xfe a", b"\xe2\x82", b"a\x00b", "é".encode()])
    text = f"SELECT value FROM `{name}` WHERE value > 'a' ORDER BY _offset"
    assert engines.rows(engines.direct, text) == engines.rows(engines.spark, text)


def test_the_command_answers_without_a_jvm(bootstrap: str, topic: Any, tmp_path: Path) -> None:
    name = topic()
    send(bootstrap, name, [b"v%d" % number for number in range(20)])
    # There is no Java to start in this environment.
    environment = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "HOME": str(tmp_path)}
    words = [TIDELOG, "sql", "--bootstrap", bootstrap, "-e"]
    text = f"SELECT value FROM `{name}` ORDER BY _offset DESC LIMIT 2"
    done = subprocess.run([*words, text], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "VALUE\nv19\nv18\n" and done.stderr == "(2 rows)\n"
