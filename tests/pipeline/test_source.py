"""`spark.read` and `spark.readStream.format("tidelog")` on a real broker."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.conformance.process import BrokerProcess, wait_until
from tests.pipeline.frames import failure, fill, finish, reading, streaming, values, writing
from tidelog import Admin, Producer, TopicPartition
from tidelog.pipeline.options.source import source_options
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source import offset_reader
from tidelog.pipeline.source.batch_reader import RangePartition, TidelogReader
from tidelog.pipeline.source.row_shape import schema_of, shape_of
from tidelog.pipeline.source.stream_reader import TidelogStreamReader

Topic = Callable[..., str]


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def in_memory(spark: Any, frame: Any, checkpoint: Path) -> tuple[Any, Callable[[], list[str | None]]]:
    """Writes a stream into a Spark table; returns the writer and a function that reads the table."""
    table = "t" + checkpoint.name.replace("-", "_") + str(abs(hash(checkpoint)))
    writer = frame.writeStream.format("memory").queryName(table).option("checkpointLocation", str(checkpoint))
    return writer, lambda: sorted(values(spark.table(table)), key=str)


def test_a_batch_has_every_record_with_kafkas_columns(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic(partitions=2, config={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(
            orders,
            b"one",
            key=b"k",
            headers=[("h", b"1"), ("n", None)],
            timestamp=1_700_000_000_123,
            partition=1,
        )
        producer.send(orders, None, partition=0)
    rows = reading(spark, bootstrap, topics=orders, includeHeaders="true").orderBy("partition").collect()
    assert [(row.partition, row.offset, row.topic) for row in rows] == [(0, 0, orders), (1, 0, orders)]
    assert rows[0].value is None and rows[0].key is None and rows[0].headers == []
    assert bytes(rows[1].key) == b"k" and bytes(rows[1].value) == b"one"
    assert [(header.key, header.value and bytes(header.value)) for header in rows[1].headers] == [
        ("h", b"1"),
        ("n", None),
    ]
    assert rows[1].timestamp == datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)


def test_a_batch_begins_and_ends_where_it_is_told(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic(config={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(orders, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)

    def read(**options: Any) -> list[str | None]:
        return values(reading(spark, bootstrap, topics=orders, **options))

    assert read() == numbers(0, 10)
    assert read(starting=f'{{"{orders}": {{"0": 7}}}}') == numbers(7, 10)
    assert read(starting=f'{{"{orders}": {{"0": -2}}}}', ending=f'{{"{orders}": {{"0": 4}}}}') == numbers(
        0, 4
    )
    assert read(starting="@1700000002500", ending="@1700000006000") == numbers(3, 6)
    assert read(starting="2023-11-14T22:13:28Z") == numbers(8, 10)
    assert read(starting="2033-01-01T00:00:00Z") == []
    assert read(starting="latest") == []


def test_a_batch_of_a_topic_that_is_written_to_is_no_loss(bootstrap: str, topic: Topic) -> None:
    orders, done = topic(partitions=2), threading.Event()
    fill(bootstrap, orders, numbers(0, 10), partition=0)

    def write() -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            while not done.is_set():
                producer.send(orders, b"x")
                producer.flush(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for starting in ("earliest", "latest", "@0") * 10:
            options = source_options(
                {"bootstrap": bootstrap, "topics": orders, "starting": starting}, streaming=False
            )
            reader = TidelogReader(options, shape_of(options, schema_of(options)))
            planned = [
                partition.wanted for partition in reader.partitions() if isinstance(partition, RangePartition)
            ]
            assert (
                starting == "latest"
                or sum(offset_range.size for offset_range in planned if offset_range is not None) >= 10
            )
    finally:
        done.set()
        writer.join()


def test_large_partitions_are_cut_for_several_tasks_and_nothing_is_lost(
    spark: Any, bootstrap: str, topic: Topic
) -> None:
    orders = topic(partitions=2)
    fill(bootstrap, orders, numbers(0, 1000), partition=0)
    fill(bootstrap, orders, numbers(1000, 1010), partition=1)
    frame = reading(spark, bootstrap, topics=orders, minPartitions=6, fetchBytes=2000)
    assert frame.rdd.getNumPartitions() == 6
    assert sorted(values(frame), key=int) == numbers(0, 1010)


def test_filters_narrow_what_is_read(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic(partitions=3)
    for partition in range(3):
        fill(bootstrap, orders, numbers(partition * 10, partition * 10 + 10), partition=partition)
    frame = reading(spark, bootstrap, topics=orders, minPartitions=30)
    narrowed = frame.where("partition = 1 and offset >= 2 and offset < 5")
    assert narrowed.rdd.getNumPartitions() == 3, "more was planned than the filter leaves"
    assert values(narrowed) == ["12", "13", "14"]
    assert sorted(values(frame.where("partition in (0, 2) and offset = 9")), key=int) == ["9", "29"]
    assert frame.where("timestamp > '2099-01-01'").count() == 0
    assert frame.where("timestamp > '2020-01-01'").count() == 30
    assert frame.where(f"topic = '{orders}x'").count() == 0


def test_filters_need_no_setting_of_sparks(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, numbers(0, 10))
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "false")
    try:
        assert values(reading(spark, bootstrap, topics=orders).where("offset = 3")) == ["3"]
    finally:
        spark.conf.set(setting, "true")


def test_patterns_and_single_partitions(
    spark: Any, bootstrap: str, name: Callable[[], str], topic: Topic
) -> None:
    first_topic, two = topic(partitions=2), topic()
    fill(bootstrap, first_topic, ["a"], partition=0)
    fill(bootstrap, first_topic, ["b"], partition=1)
    fill(bootstrap, two, ["c"])
    prefix = first_topic.rsplit("-", 1)[0]
    assert sorted(map(str, values(reading(spark, bootstrap, pattern=f"{prefix}-.*")))) == ["a", "b", "c"]
    assert values(reading(spark, bootstrap, assign=f'{{"{first_topic}": [1]}}')) == ["b"]


def test_aborted_records_and_markers_are_left_out(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"{orders}-writer") as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send(orders, b"%d" % number)
            producer.flush()
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
        producer.begin_transaction()
        producer.send(orders, b"open")
        producer.flush()
        assert values(reading(spark, bootstrap, topics=orders)) == ["1", "3", "5"]
        loose = reading(spark, bootstrap, topics=orders, isolation="read_uncommitted")
        assert values(loose) == [*numbers(0, 6), "open"]
        producer.abort_transaction()
    # Splits that begin within transactions know what was aborted, too.
    assert values(reading(spark, bootstrap, topics=orders, minPartitions=5)) == ["1", "3", "5"]


def test_a_compacted_topic_has_holes(spark: Any, bootstrap: str, topic: Topic) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    orders = topic(config=config)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(3000):
            producer.send(orders, b"%d" % number + b"x" * 1000, key=b"%d" % (number % 10))
    admin = Admin(bootstrap_servers=bootstrap)
    with admin:
        frame = reading(spark, bootstrap, topics=orders, minPartitions=3)
        wait_until(lambda: frame.count() < 2500, 60, "compaction")
        end = admin.list_offsets({TopicPartition(orders, 0): "latest"})[TopicPartition(orders, 0)].offset
    offsets = [row.offset for row in frame.select("offset").collect()]
    assert end == 3000 and max(offsets) == 2999
    assert offsets == sorted(set(offsets)), "an offset came twice"


def test_a_stream_reads_on_and_finds_new_partitions(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    orders = topic()
    fill(bootstrap, orders, numbers(0, 10))
    writer, read = in_memory(
        spark, streaming(spark, bootstrap, topics=orders, maxRecordsPerTrigger=4), tmp_path / "c"
    )
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: read() == sorted(numbers(0, 10)), 120, "the first ten")
        batches = [progress["numInputRows"] for progress in query.recentProgress]
        assert max(batches) == 4 and sum(batches) == 10
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({orders: 3})
        fill(bootstrap, orders, numbers(10, 20), partition=2)
        fill(bootstrap, orders, numbers(20, 25), partition=0)
        wait_until(lambda: read() == sorted(numbers(0, 25)), 120, "the new partition")
    finally:
        query.stop()


def test_a_stream_goes_on_from_its_checkpoint_and_tells_its_group(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    orders, copy = topic(partitions=2), topic()
    group = f"{orders}-group"
    for start, end in ((0, 10), (10, 25)):
        fill(bootstrap, orders, numbers(start, end))
        frame = streaming(spark, bootstrap, topics=orders, groupId=group).select("value")
        finish(writing(frame, bootstrap, tmp_path / "c", topic=copy, guarantee="at_least_once"))
        assert sorted(values(reading(spark, bootstrap, topics=copy)), key=int) == numbers(0, end)
        with Admin(bootstrap_servers=bootstrap) as admin:
            wait_until(lambda: _committed(admin, group) == end, 30, "the group's offsets")  # noqa: B023


def _committed(admin: Admin, group: str) -> int:
    return sum(committed.offset for committed in admin.list_group_offsets(group).values())


def test_new_topics_of_a_pattern_are_read_from_their_beginning(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    first = topic()
    fill(bootstrap, first, ["a"])
    frame = streaming(spark, bootstrap, pattern=first.rsplit("-", 1)[0] + "-.*", starting="latest")
    writer, read = in_memory(spark, frame, tmp_path / "c")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: query.lastProgress is not None, 120, "the stream's start")
        fill(bootstrap, topic(), ["b", "c"])
        wait_until(lambda: read() == ["b", "c"], 120, "the new topic")
    finally:
        query.stop()


def test_a_first_batch_that_failed_is_not_skipped(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    """A stream that begins at the latest offset: what came before its first batch was done is not lost by a crash."""
    orders, copy = topic(), topic()
    fill(bootstrap, orders, ["before"])
    fails = True

    def once(rows: Any, number: int) -> None:
        if fails and rows.count():
            raise ZeroDivisionError("on purpose")
        writer = rows.select("value").write.format("tidelog").option("bootstrap", bootstrap)
        writer.option("topic", copy).mode("append").save()

    def start(**trigger: Any) -> Any:
        frame = streaming(spark, bootstrap, topics=orders, starting="latest")
        writer = frame.writeStream.foreachBatch(once).option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(**trigger).start()

    query = start(processingTime="100 milliseconds")
    wait_until(lambda: query.lastProgress is not None, 120, "the stream's start")
    fill(bootstrap, orders, ["a", "b"])
    wait_until(lambda: not query.isActive, 120, "the failure of the first batch")
    assert "on purpose" in str(query.exception())
    fill(bootstrap, orders, ["c"])
    fails = False
    query = start(availableNow=True)
    assert query.awaitTermination(120)
    assert values(reading(spark, bootstrap, topics=copy)) == ["a", "b", "c"]


# What retention, deletion and mistakes do


def test_lost_data_stops_a_stream_unless_it_is_told_to_go_on(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    orders, copy = topic(), topic()
    fill(bootstrap, orders, numbers(0, 10))

    def run(**options: Any) -> None:
        frame = streaming(spark, bootstrap, topics=orders, maxRecordsPerTrigger=5, **options).select("value")
        finish(writing(frame, bootstrap, tmp_path / "c", topic=copy, guarantee="at_least_once"))

    run()
    fill(bootstrap, orders, numbers(10, 20))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(orders, 0): 17})
    message = failure(spark, run)
    assert "offsets 10 to 14" in message and "failOnDataLoss" in message and "retention" in message
    run(failOnDataLoss="false")
    assert sorted(values(reading(spark, bootstrap, topics=copy)), key=int) == numbers(0, 10) + numbers(17, 20)


def test_a_log_that_ends_before_the_checkpoint_has_lost_data(
    bootstrap: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = topic()
    fill(bootstrap, orders, numbers(0, 5))
    monkeypatch.setattr(offset_reader, "ASK_AGAIN_S", 0.0)

    def reader(**more: str) -> TidelogStreamReader:
        given = {"bootstrap": bootstrap, "topics": orders, "starting": "earliest", **more}
        options = source_options(given, streaming=True)
        return TidelogStreamReader(options, shape_of(options, schema_of(options)))

    ahead = reader().initialOffset()
    del ahead["@first"]
    ahead[orders]["0"] = 10
    with pytest.raises(PipelineError, match=r"has read up to offset 10 of .* its log ends at 5"):
        reader().latestOffset(ahead, ReadAllAvailable())
    with pytest.raises(PipelineError, match="begins at offset 10 of"):
        reader().latestOffset({**ahead, "@first": True}, ReadMaxRows(3))
    for limit in (ReadAllAvailable(), ReadMaxRows(3)):
        end = reader(failOnDataLoss="false").latestOffset(ahead, limit)
        assert end[orders] == {"0": 5}, "what is written next would be skipped"


def test_open_transactions_are_no_loss(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    options = source_options({"bootstrap": bootstrap, "topics": orders}, streaming=True)
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{orders}-open") as producer,
        producer.transaction(),
    ):
        producer.send(orders, b"a")
        producer.flush(60)
        reader = TidelogStreamReader(options, shape_of(options, schema_of(options)))
        # Like a query that has read uncommitted records, and now reads only committed ones.
        ahead = {**reader.initialOffset(), orders: {"0": 1}}
        assert reader.latestOffset(ahead, ReadAllAvailable()) == ahead


def test_offsets_that_are_not_in_the_log(spark: Any, bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, numbers(0, 5))
    wanted = {"topics": orders, "ending": f'{{"{orders}": {{"0": 9}}}}'}
    message = failure(spark, lambda: reading(spark, bootstrap, **wanted).count())
    assert "offset 9" in message and "from 0 to 5" in message
    assert reading(spark, bootstrap, **wanted, failOnDataLoss="false").count() == 5


def test_a_checkpoint_of_another_topic_is_told_apart(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    orders, payments, copy = topic(), topic(), topic()
    for name in (orders, payments):
        fill(bootstrap, name, ["a"])

    def run(which: str) -> None:
        frame = streaming(spark, bootstrap, topics=which).select("value")
        finish(writing(frame, bootstrap, tmp_path / "c", topic=copy))

    run(orders)
    message = failure(spark, lambda: run(payments))
    assert f"reads topic '{orders}'" in message and payments in message and "checkpoint of its own" in message


def test_a_topic_deleted_under_a_running_query(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    orders = topic()
    fill(bootstrap, orders, ["a"])
    writer, read = in_memory(spark, streaming(spark, bootstrap, topics=orders), tmp_path / "c")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: read() == ["a"], 120, "the first record")
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([orders])
        wait_until(lambda: not query.isActive, 120, "the end of the query")
        assert f"there is no topic '{orders}'" in str(query.exception())
    finally:
        query.stop()


def test_a_query_goes_on_with_the_topics_that_are_left(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    first, second, copy = topic(), topic(), topic()
    for name in (first, second):
        fill(bootstrap, name, ["a"])

    def run(**options: Any) -> None:
        frame = streaming(spark, bootstrap, topics=f"{first},{second}", **options).select("value")
        finish(writing(frame, bootstrap, tmp_path / "c", topic=copy))

    run()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([first])
    fill(bootstrap, second, ["b"])
    assert f"there is no topic '{first}'" in failure(spark, run)
    run(failOnDataLoss="false")
    assert sorted(map(str, values(reading(spark, bootstrap, topics=copy)))) == ["a", "a", "b"]


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    spark: Any, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    from tests.conformance.topics import create_topic

    orders, copy = topic(), topic()
    fill(bootstrap, orders, numbers(0, 5))

    def run(**options: Any) -> None:
        frame = streaming(spark, bootstrap, topics=orders, **options).select("value")
        finish(writing(frame, bootstrap, tmp_path / "c", topic=copy))

    run()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([orders])
    create_topic(bootstrap, orders, 1, None)
    fill(bootstrap, orders, numbers(10, 20))
    assert "deleted and made anew" in failure(spark, run)
    run(failOnDataLoss="false")
    assert values(reading(spark, bootstrap, topics=copy)) == numbers(0, 5) + numbers(10, 20)


def test_a_broker_that_is_away_for_a_while_holds_a_stream_up_and_no_more(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: Callable[[], str], tmp_path: Path
) -> None:
    from tests.conformance.topics import create_topic

    running = own_broker()
    orders = name()
    create_topic(running.bootstrap, orders, 1, None)
    fill(running.bootstrap, orders, ["a"])
    writer, read = in_memory(spark, streaming(spark, running.bootstrap, topics=orders), tmp_path / "c")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: read() == ["a"], 120, "the first record")
        running.kill()
        seen = len(query.recentProgress)
        running.start()
        fill(running.bootstrap, orders, ["b"])
        wait_until(lambda: read() == ["a", "b"], 120, "the second record")
        assert query.isActive and len(query.recentProgress) >= seen
    finally:
        query.stop()


def test_a_broker_that_stays_away_ends_the_query_with_its_address(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: Callable[[], str]
) -> None:
    running = own_broker()
    running.stop()
    message = failure(
        spark, lambda: reading(spark, running.bootstrap, topics="orders", timeoutMs=300).count()
    )
    assert running.bootstrap in message and "is it running?" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of the options 'topics', 'pattern' and 'assign'"),
        ({"topics": "a", "pattern": "b"}, "not 'topics' and 'pattern'"),
        ({"topics": "a", "startin": "latest"}, "did you mean 'starting'?"),
        ({"topics": "a", "starting": "soon"}, "use earliest, latest, a time"),
        ({"topics": "a", "maxRecordsPerTrigger": "5"}, "is for streams"),
        ({"topics": "a", "minPartitions": "0"}, "a number of at least 1"),
        ({"assign": "{1}"}, "is not JSON"),
        ({"topics": "a", "isolation": "none"}, "use read_committed, read_uncommitted"),
        ({"topics": "a", "security__mechanism": "PLAIN"}, "needs username and password"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    spark: Any, bootstrap: str, options: dict[str, str], message: str
) -> None:
    assert message in failure(spark, lambda: reading(spark, bootstrap, **options).count())


def test_a_topic_that_is_not_there(spark: Any, bootstrap: str, name: Callable[[], str]) -> None:
    missing = name()
    message = failure(spark, lambda: reading(spark, bootstrap, topics=missing).count())
    assert f"there is no topic '{missing}'" in message and bootstrap in message
