"""The blocking faces of the consumer and the admin client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.consuming import fill
from tidelog import Admin, ClientClosed, Consumer, NewTopic, RebalanceListener, TopicPartition, Unreachable


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    yield
    assert "tidelog-client" not in [one.name for one in threading.enumerate()]


def group(bootstrap: str, topic: str) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"of-{topic}",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    )


def test_iteration_commits_what_was_done_and_goes_on_there(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    sent = fill(bootstrap, name)
    with pytest.raises(ZeroDivisionError), group(bootstrap, name) as consumer:
        for record in consumer:
            if record.offset == 3:
                raise ZeroDivisionError
    with group(bootstrap, name) as consumer:
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 4:
                break
        found += [one.value for one in consumer.poll(5_000)]
        assert found == sent[3:]
    with group(bootstrap, name) as consumer:
        while not consumer.assignment():
            consumer.poll(50)
        assert consumer.position(TopicPartition(name, 0)) == 10
    with pytest.raises(ClientClosed):
        consumer.poll()


def test_listeners_and_callbacks_run_in_the_thread_that_polls_and_may_use_the_consumer(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    fill(bootstrap, name)
    zero, here = TopicPartition(name, 0), threading.current_thread()
    said: list[Any] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            assert threading.current_thread() is here
            consumer.seek(zero, 7)
            said.append(("assigned", list(partitions)))

        def on_partitions_revoked(self, partitions: Any) -> None:
            consumer.commit({zero: 9})
            said.append(("revoked", list(partitions)))

    with Consumer(bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False) as consumer:
        consumer.subscribe(name, listener=Listener())
        records = []
        while not records:
            records = consumer.poll(1_000)
        assert records[0].offset == 7
        consumer.commit_async(callback=lambda offsets, problem: said.append((offsets[zero].offset, problem)))
        while len(said) < 2:
            consumer.poll(50)
        consumer.unsubscribe()
    assert said == [("assigned", [zero]), (10, None), ("revoked", [zero])]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets(name)[zero].offset == 9


def test_what_a_listener_raises_is_raised_by_poll(bootstrap: str, topic: Callable[..., str]) -> None:
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            raise ZeroDivisionError

    name = topic()
    with Consumer(bootstrap_servers=bootstrap, group_id=name) as consumer:
        consumer.subscribe(name, listener=Listener())
        with pytest.raises(ZeroDivisionError):
            while True:
                consumer.poll(1_000)
        consumer.poll()


def test_arrow_and_rows_may_take_turns(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    sent = fill(bootstrap, name, partitions=2, each=20)
    with Consumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        found = [one.value for one in consumer.poll(5_000, max_records=3)]
        for record in consumer:
            found.append(record.value)
            break
        while len(found) < len(sent):
            batch = consumer.poll_arrow(1_000)
            found += batch.column("value").to_pylist()
        assert batch.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
        assert sorted(found) == sorted(sent)
        assert consumer.poll_arrow(50).num_rows == 0


def test_positions_and_pauses(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([zero])
        consumer.seek_to_beginning(zero)
        assert consumer.position(zero) == 0
        consumer.pause([zero])
        assert consumer.poll(200) == [] and consumer.paused() == {zero}
        consumer.resume(zero)
        assert len(consumer.poll(5_000)) == 10
        assert consumer.end_offsets([zero]) == {zero: 10} and consumer.beginning_offsets([zero]) == {zero: 0}
        assert consumer.lag() == {zero: 0}
        consumer.seek_to_time(0)
        assert consumer.poll(5_000)[0].offset == 0
        assert consumer.partitions_for(name) == [0]
        found = consumer.offsets_for_times({zero: 2**42})
        assert found == {zero: None}


def test_the_admin_client(bootstrap: str, name: Callable[[], str]) -> None:
    topic = name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions=2)])
        assert [len(one.partitions) for one in admin.describe_topics([topic]).values()] == [2]
        admin.delete_topics([topic])
    with pytest.raises(ClientClosed):
        admin.list_topics()


@pytest.mark.parametrize("client", [Consumer, Admin])
def test_nobody_there(client: Any) -> None:
    with pytest.raises(Unreachable, match=r"cannot reach a broker at 127\.0\.0\.1:1: connection refused"):
        client(bootstrap_servers="127.0.0.1:1")


def test_polls_in_the_callers_thread_meet_fetches_in_the_other_and_lose_nothing(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    count = 10_000
    for partition in range(3):
        confluent_produce(bootstrap, name, [Message(b"%d" % at) for at in range(count)], partition=partition)
    with Consumer(
        name,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=20_000,  # many small fetches, so that the threads meet often
    ) as consumer:
        nexts = [0, 0, 0]
        while sum(nexts) < 3 * count:
            for record in consumer.poll(5_000, max_records=7):
                assert record.offset == nexts[record.partition] and record.value == b"%d" % record.offset
                nexts[record.partition] += 1
        assert nexts == [count] * 3
        assert consumer.metrics().records_consumed_total == 3 * count
