"""The examples, as they are: topics filled, the file loaded and run, the outputs compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.records import fresh_topic, pairs, records, rows, send
from tidelog.pipeline.running.loading import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"

pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time


@pytest.fixture
def run(spark: Any, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", bootstrap)
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))

    def running(file: str, *topics: str) -> None:
        for topic in topics:
            fresh_topic(bootstrap, topic)
        for pipeline in load(EXAMPLES / file, Path(file).stem, bootstrap):
            pipeline.run(until_done=True)

    return running


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text()
    assert all(path.name in tested for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sql"))


def test_word_count(run: Any, bootstrap: str) -> None:
    fresh_topic(bootstrap, "lines")
    send(bootstrap, "lines", [b"To be, or not to be:", b"that is the question"])
    run("word_count.py", "words")
    words = dict(pairs(bootstrap, "words"))
    assert words["to"] == {"word": "to", "count": 2} and words["be"]["count"] == 2 and len(words) == 8


def test_click_analytics(run: Any, bootstrap: str) -> None:
    fresh_topic(bootstrap, "clicks")
    clicks = [
        ("ann", "/", "12:00:10"),
        ("ann", "/pears", "12:10:00"),
        ("bob", "/", "12:00:30"),
        ("eve", "/", "14:00:00"),
    ]
    sent: list[Any] = [{"user": user, "page": page, "at": f"2026-01-31T{at}Z"} for user, page, at in clicks]
    send(bootstrap, "clicks", [*sent, b"click?"], key="user")
    run("click_analytics.py", "visits", "views", "clicks-failed")
    visits = dict(pairs(bootstrap, "visits"))
    assert sorted(visits) == ["ann", "bob"]  # eve's may go on
    ann = visits["ann"]
    assert (ann["pages"], ann["first"], ann["last"], ann["seconds"]) == (2, "/", "/pears", 590)
    views = [(row["page"], row["window_start"][11:16], row["views"]) for row in rows(bootstrap, "views")]
    assert sorted(views) == [("/", "12:00", 2), ("/pears", "12:10", 1)]
    assert [record.value for record in records(bootstrap, "clicks-failed")] == [b"click?"]
    # The same views, by the SQL example, which tells every change.
    run("page_views.sql", "page-views")
    seen = {}
    for key, row in pairs(bootstrap, "page-views"):
        seen[json.loads(key or "")["page"], row["minute"][11:16]] = row["views"]
    assert seen == {("/", "12:00"): 2, ("/pears", "12:10"): 1, ("/", "14:00"): 1}


def test_fraud_detection(run: Any, bootstrap: str) -> None:
    fresh_topic(bootstrap, "payments")

    def payment(card: str, amount: float, country: str, minute: int, second: int = 0) -> dict[str, Any]:
        at = f"2026-01-31T12:{minute:02d}:{second:02d}Z"
        return {"card": card, "amount": amount, "country": country, "at": at}

    usual = [payment("usual", 10.0, "NL", minute) for minute in range(0, 12, 2)]
    sent = [*usual, payment("usual", 500.0, "NL", 30)]
    sent += [payment("far", 10.0, "NL", 0), payment("far", 10.0, "JP", 20)]
    sent += [payment("fast", 1.0, "NL", 0, second) for second in range(6)]
    send(bootstrap, "payments", sent, key="card")
    run("fraud_detection.py", "alerts", "payments-failed")
    alerts = sorted((row["card"], row["rule"], row["amount"]) for row in rows(bootstrap, "alerts"))
    assert alerts == [("far", "travel", 10.0), ("fast", "burst", 1.0), ("usual", "amount", 500.0)]


def test_orders_with_customers(run: Any, bootstrap: str) -> None:
    for topic in ("orders", "customers"):
        fresh_topic(bootstrap, topic)
    send(
        bootstrap,
        "customers",
        [("c1", {"name": "Ann", "city": "Delft"}), ("c1", {"name": "Ann", "city": "Gent"})],
    )
    send(
        bootstrap,
        "orders",
        [{"id": 1, "customer": "c1", "amount": 2.5}, {"id": 2, "customer": "c7", "amount": 1.0}],
    )
    run("orders_with_customers.py", "orders-with-customers")
    joined = {
        row["id"]: (key, row["name"], row["city"]) for key, row in pairs(bootstrap, "orders-with-customers")
    }
    assert joined == {1: ("c1", "Ann", "Gent"), 2: ("c7", None, None)}


def test_logs_to_parquet(
    run: Any, spark: Any, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_topic(bootstrap, "logs")
    monkeypatch.setenv("LOGS_FOLDER", str(tmp_path / "logs"))
    lines = [
        b"2026-01-31T12:00:00Z ERROR payments: card declined",
        b"2026-02-01T00:00:00Z INFO shop: open",
        b"oops",
    ]
    send(bootstrap, "logs", lines)
    run("logs_to_parquet.py", "logs-failed")
    table = spark.read.parquet(str(tmp_path / "logs"))
    entries = sorted((str(row.day), row.level, row.service, row.message) for row in table.collect())
    assert entries == [
        ("2026-01-31", "ERROR", "payments", "card declined"),
        ("2026-02-01", "INFO", "shop", "open"),
    ]
    (failed,) = records(bootstrap, "logs-failed")
    assert failed.value == b"oops" and any(b"not like" in value for _, value in failed.headers)
