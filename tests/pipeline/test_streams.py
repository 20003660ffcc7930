"""The streams library on real topics.  One pipeline with an output for each feature is run once for all tests: a Spark
query costs seconds, looking at what it wrote costs nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.records import pairs, records, rows, send
from tidelog.pipeline import List, Pipeline, PipelineError, Value

SCHEMA = "id int, customer string, amount double, at timestamp"
BAD = [b"no json", b'{"id": 3} garbage', b'{"id": 2}, "w": 5', b"", b"[1]", b"null"]
OUTPUTS = "mapped merged tumbling hopping sessions sliding reduced joined both near unique alerts"
pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time


def order(number: int) -> dict[str, Any]:
    """Ten orders of three customers, a minute apart."""
    return {
        "id": number,
        "customer": f"c{number % 3}",
        "amount": number * 1.5,
        "at": f"2026-01-01T00:{number:02d}:00Z",
    }


def shares(row: Any) -> Any:
    """Order 7 makes it raise."""
    return {"id": row.id, "share": 100 / (row.id - 7)}


def watch(customer: Any, orders: Any, context: Any) -> Iterator[Any]:
    """Keeps a total, a list of large amounts, and a timer at the end of the day."""
    total, large = context.stores.total, context.stores.large
    for order in sorted(orders, key=lambda order: order.id):
        total.set(total.get(0.0) + order.amount)
        if order.amount > 10:
            large.append(order.id)
        context.timers.at(1_767_225_600_000 + 5 * 60_000)  # 2026-01-01T00:05
    yield {"customer": customer, "what": "total", "amount": total.get(), "ids": list(large)}


def over(customer: Any, due_ms: int, context: Any) -> Iterator[Any]:
    yield {"customer": customer, "what": "over", "amount": context.stores.total.get(), "ids": None}


def added(result: Any, other: Any) -> Any:
    return {**other, "amount": result["amount"] + other["amount"]}


@dataclass
class Shop:
    pipeline: Pipeline
    bootstrap: str
    topics: dict[str, str]
    dead: str

    def rows(self, output: str) -> list[Any]:
        return rows(self.bootstrap, self.topics[output])

    def pairs(self, output: str) -> list[tuple[str | None, Any]]:
        return pairs(self.bootstrap, self.topics[output])


@pytest.fixture(scope="module")
def shop(spark: Any, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    import uuid

    from tests.conformance.topics import create_topic

    prefix = f"s-{uuid.uuid4().hex[:8]}"
    topics = {name: f"{prefix}-{name}" for name in OUTPUTS.split()}
    orders, customers, cities, dead = (
        f"{prefix}-{name}" for name in ("orders", "customers", "cities", "dead")
    )
    for topic in (*topics.values(), dead):
        create_topic(bootstrap, topic, 1, None)
    for topic in (orders, customers, cities):
        create_topic(bootstrap, topic, 2, None)
    send(bootstrap, orders, [*(order(number) for number in range(10)), *BAD], key="customer")
    send(
        bootstrap,
        customers,
        [("c0", {"name": "Ann"}), ("c1", {"name": "Bob"}), ("c2", {"name": "Eve"}), ("c2", None)],
    )
    send(bootstrap, cities, [("c0", {"city": "Delft"}), ("c9", {"city": "Gent"})])
    folder = str(tmp_path_factory.mktemp("shop"))
    pipeline = Pipeline("shop", bootstrap=bootstrap, checkpoint=folder, dead_letters=dead, spark=spark)
    define(pipeline, orders, customers, cities, topics)
    for output in pipeline.outputs():
        pipeline.run(output, until_done=True)
    return Shop(pipeline, bootstrap, topics, dead)


def define(
    pipeline: Pipeline, orders_topic: str, customers_topic: str, cities_topic: str, to: dict[str, str]
) -> None:
    orders = pipeline.stream(orders_topic, schema=SCHEMA)
    kept = orders.filter(lambda row: row.id != 1)
    kept.map(shares, schema="id int, share double").key_by("id").to(to["mapped"])
    small, large = orders.branch("amount < 5")
    small.select("id", size="'small'").merge(large.select("id", size="'large'")).to(to["merged"])
    timed = orders.watermark("at", "1 minute").key_by("customer")
    timed.tumbling("5 minutes").aggregate(total="sum(amount)", n="count(*)").to(to["tumbling"])
    timed.hopping("10 minutes", "5 minutes").count().suppress().to(to["hopping"])
    visits = orders.filter("id < 4 OR id = 9").watermark("at", "1 minute").key_by("customer")
    visits.session("3 minutes 30 seconds").reduce(added).to(to["sessions"])
    orders.with_columns(_timestamp="at").key_by("customer").sliding("3 minutes").aggregate(
        total="sum(amount)", n="count(*)"
    ).to(to["sliding"])
    orders.key_by("customer").select("customer", "amount").reduce(added).to(to["reduced"])
    customers = pipeline.table(customers_topic, key="customer", schema="name string")
    cities = pipeline.table(cities_topic, key="customer", schema="city string")
    orders.key_by("customer").join(customers, how="left").select("id", "customer", "name").to(to["joined"])
    customers.join(cities, how="outer").to(to["both"])
    later = orders.filter("id >= 5").select("customer", "at", again="id").watermark("at", "1 minute")
    timed.join(later, within="3 minutes").filter("again > id").select("id", "again").to(to["near"])
    orders.select("customer").deduplicate("customer").to(to["unique"])
    timed.process(
        watch,
        schema="customer string, what string, amount double, ids array<int>",
        stores={"total": "double", "large": List("int")},
        on_timer=over,
    ).to(to["alerts"])


def by(written: list[Any], *names: str) -> list[Any]:
    return sorted(tuple(row[name] for name in names) for row in written)


def test_rows_are_mapped_and_keyed(shop: Shop) -> None:
    mapped = dict(shop.pairs("mapped"))
    assert sorted(mapped) == sorted(str(number) for number in range(10) if number not in (1, 7))
    assert mapped["5"] == {"id": 5, "share": -50.0}


def test_what_fails_is_a_dead_letter_and_nothing_else_stops(shop: Shop) -> None:
    letters: dict[str, list[Any]] = {}
    for record in records(shop.bootstrap, shop.dead):
        headers = {
            name.removeprefix("tidelog.dead.letter."): value.decode() for name, value in record.headers
        }
        letters.setdefault(headers["error"].split(":")[0], []).append((record, headers))
    assert sorted(letters) == ["decode", "map shares"]
    undecoded, about = letters["decode"][0]
    assert sorted(record.value for record, _ in letters["decode"]) == sorted(BAD) and undecoded.key is None
    assert about["pipeline"] == "shop" and about["topic"].endswith("-orders") and about["offset"].isdigit()
    ((raised, about),) = letters["map shares"]
    assert b'"id": 7' in raised.value and raised.key == b"c1" and "ZeroDivisionError" in about["error"]


def test_branches_take_every_row_once(shop: Shop) -> None:
    sizes = [(number, "small" if number < 4 else "large") for number in range(10)]
    assert by(shop.rows("merged"), "id", "size") == sizes


def test_windows_change_until_they_close(shop: Shop) -> None:
    windows = {(row["customer"], row["window_start"]): row for row in shop.rows("tumbling")}
    assert len(windows) == 6 and windows["c0", "2026-01-01T00:05:00.000Z"]["total"] == 22.5
    # The watermark is a minute behind the newest row, at 00:08: later windows are open.
    hops = by(shop.rows("hopping"), "customer", "window_start", "window_end", "count")
    assert hops[0] == ("c0", "2025-12-31T23:55:00.000Z", "2026-01-01T00:05:00.000Z", 2) and len(hops) == 3


def test_sessions_end_with_silence(shop: Shop) -> None:
    # Orders 0 and 3 are one session; that of order 9 is still open.
    assert by(shop.rows("sessions"), "customer", "amount", "window_start", "window_end") == [
        ("c0", 4.5, "2026-01-01T00:00:00.000Z", "2026-01-01T00:06:30.000Z"),
        ("c1", 1.5, "2026-01-01T00:01:00.000Z", "2026-01-01T00:04:30.000Z"),
        ("c2", 3.0, "2026-01-01T00:02:00.000Z", "2026-01-01T00:05:30.000Z"),
    ]


def test_sliding_windows_look_back_from_every_row(shop: Shop) -> None:
    windows = {
        (row["customer"], row["window_end"][14:16]): (row["n"], row["total"]) for row in shop.rows("sliding")
    }
    assert len(windows) == 10
    assert (
        windows["c0", "00"] == (1, 0.0)
        and windows["c0", "09"] == (2, 22.5)
        and windows["c1", "07"] == (2, 16.5)
    )


def test_reductions_are_the_state_of_a_key(shop: Shop) -> None:
    assert by(shop.rows("reduced"), "customer", "amount") == [("c0", 27.0), ("c1", 18.0), ("c2", 22.5)]
    state = shop.pipeline.query(shop.topics["reduced"], store="reduced").collect()
    assert sorted((row.customer, row.amount) for row in state) == [("c0", 27.0), ("c1", 18.0), ("c2", 22.5)]


def test_a_stream_meets_a_table(shop: Shop) -> None:
    joined = shop.pairs("joined")
    assert {row["id"]: row["name"] for _, row in joined} == {
        number: {0: "Ann", 1: "Bob", 2: None}[number % 3] for number in range(10)
    }
    assert {key for key, _ in joined} == {"c0", "c1", "c2"}


def test_two_tables_are_one_that_changes(shop: Shop) -> None:
    latest = dict(shop.pairs("both"))
    assert latest == {
        "c0": {"customer": "c0", "name": "Ann", "city": "Delft"},
        "c1": {"customer": "c1", "name": "Bob", "city": None},
        "c9": {"customer": "c9", "name": None, "city": "Gent"},
    }


def test_streams_meet_within_a_time(shop: Shop) -> None:
    assert by(shop.rows("near"), "id", "again") == [(2, 5), (3, 6), (4, 7), (5, 8), (6, 9)]


def test_duplicates_are_left_out(shop: Shop) -> None:
    assert by(shop.rows("unique"), "customer") == [("c0",), ("c1",), ("c2",)]


def test_functions_keep_state_and_set_timers(shop: Shop) -> None:
    alerts = by(shop.rows("alerts"), "customer", "what", "amount")
    totals = [("c0", 27.0), ("c1", 18.0), ("c2", 22.5)]
    assert alerts == sorted((key, what, total) for key, total in totals for what in ("over", "total"))
    assert {row["customer"]: row["ids"] for row in shop.rows("alerts") if row["what"] == "total"} == {
        "c0": [9],
        "c1": [7],
        "c2": [8],
    }


def seen(key: Any, orders: Any, context: Any) -> Iterator[Any]:
    """Counts the orders of a customer, in a store with a time to live and in one without."""
    short, long = context.stores.short, context.stores.long
    for _ in orders:
        short.set(short.get(0) + 1)
        long.set(long.get(0) + 1)
    yield {"customer": key, "short": short.get(), "long": long.get()}


def test_state_with_a_time_to_live_is_forgotten(
    spark: Any, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic(), topic()
    for number in range(2):
        send(bootstrap, source, [{"customer": "c"}])
        pipeline = Pipeline("ttl", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
        keyed = pipeline.stream(source, schema="customer string").key_by("customer")
        stores = {"short": Value("int", ttl="1 second"), "long": "int"}
        keyed.process(seen, schema="customer string, short int, long int", stores=stores).to(target)
        pipeline.run(until_done=True)
        if number == 0:
            time.sleep(1.1)
    assert by(rows(bootstrap, target), "short", "long") == [(1, 1), (1, 2)]


@pytest.fixture
def plain(spark: Any, tmp_path: Path) -> Pipeline:
    return Pipeline("plain", bootstrap="127.0.0.1:1", checkpoint=str(tmp_path), spark=spark)


def test_mistakes_are_told_before_anything_runs(plain: Pipeline, spark: Any) -> None:
    ticks = plain.from_df(spark.readStream.format("rate").load())

    def refused(work: Callable[[], Any], message: str) -> None:
        with pytest.raises(PipelineError, match=message):
            work()

    refused(lambda: plain.from_df(spark.range(1)), "takes a streaming DataFrame")
    refused(lambda: ticks.key_by("nothing"), "no column 'nothing': there are timestamp, value")
    refused(lambda: ticks.count().suppress(), "suppress waits for windows to close")
    refused(lambda: ticks.tumbling("5"), "'5' is not a duration")
    refused(lambda: ticks.hopping("1 minute", "2 minutes"), "would leave rows out")
    refused(lambda: ticks.session("1 minute"), "watermark")
    refused(lambda: ticks.process(watch, "a int"), r"\.key_by\(column\) first")
    refused(lambda: ticks.join(ticks, on="value"), "within='10 minutes'")
    refused(lambda: ticks.join(ticks, on="value", within="1 minute"), "give both a .watermark")
    refused(
        lambda: ticks.key_by("value").sliding("1 minute").aggregate(x="median(value)"),
        "not an aggregate for sliding",
    )
    refused(lambda: ticks.count().to_table("totals"), "cannot be appended to files")
    refused(lambda: ticks.map(shares, schema="a integr"), "is not like 'id bigint, amount double'")
    counted = ticks.key_by("value").count()
    refused(lambda: counted.aggregate(x="sum(count)"), "aggregate needs rows that do not change any more")
    refused(lambda: ticks.join(counted.as_table(), on="value"), "a join with a table needs rows")
    refused(lambda: plain.run(), "has no output")
    refused(lambda: plain.query("nothing"), "there is no state")
    refused(lambda: plain.stream("x", schema="a int", on_error="dead_letter"), "needs a topic")
    refused(lambda: Pipeline("a b"), "letters, digits")
    keyed = ticks.key_by("value")
    refused(
        lambda: keyed.process(watch, "a int", stores={"l": List("int", ttl="1 hour")}, time="event"),
        "does not go with time='event'",
    )


def test_a_function_that_raises_stops_a_pipeline_without_dead_letters(
    spark: Any, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic(), topic()
    send(bootstrap, source, [order(7)])
    pipeline = Pipeline("failing", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    pipeline.stream(source, schema=SCHEMA).map(shares, schema="id int, share double").to(target)
    with pytest.raises(Exception, match=r"map shares raised ZeroDivisionError.*'id': 7"):
        pipeline.run(until_done=True)


def test_a_snapshot_is_the_table_as_it_stands_in_every_batch(
    spark: Any, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, customers = topic(), topic()
    send(bootstrap, orders, [{"id": 1, "customer": "c"}, {"id": 2, "customer": "c"}])
    send(bootstrap, customers, [("c", {"name": "Ann"})])
    seen: list[tuple[int, str]] = []

    def look(batch: Any, number: int) -> None:
        seen.extend((row.id, row.name) for row in batch.collect())
        send(bootstrap, customers, [("c", {"name": "Bea"})])

    pipeline = Pipeline("snapshots", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    table = pipeline.table(customers, key="customer", schema="name string")
    stream = pipeline.stream(orders, schema="id int, customer string", maxRecordsPerTrigger=1)
    stream.join(table, on="customer", snapshot=True).for_each_batch(look)
    pipeline.run(until_done=True)
    assert seen == [(1, "Ann"), (2, "Bea")]
