"""`tidelog groups` and `tidelog consume --group` against a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.consuming import fill, indexes, run, until
from tests.conformance.members import await_coordinator
from tests.conformance.process import wait_until
from tests.conformance.streams_members import StreamsMember, settle, subtopology, topology
from tests.conformance.test_cli_topics import failed, ok
from tests.unit.cli.commands import invoke
from tidelog.aio import Admin, Consumer, OffsetAndMetadata, TopicPartition


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def set_offsets(bootstrap: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.alter_group_offsets(group, offsets)

    run(work())


def describe(group: str, on: tuple[str, str]) -> Any:
    (one,) = json.loads(ok("groups", "describe", group, "--json", *on))
    return one


def committed(group: str, on: tuple[str, str]) -> dict[int, int]:
    return {one["partition"]: one["committed"] for one in describe(group, on)["offsets"]}


def lag(group: str, on: tuple[str, str]) -> list[tuple[int, bool]]:
    return [(one["lag"], one["lag_exact"]) for one in describe(group, on)["offsets"]]


def test_a_group_is_listed_described_and_deleted(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(partitions=2), name()
    fill(bootstrap, known, partitions=2)
    set_offsets(bootstrap, group, {TopicPartition(known, 0): 4})
    listed = {one["group"]: one for one in json.loads(ok("groups", "list", "--json", *on))}
    assert (listed[group]["type"], listed[group]["state"]) == ("classic", "Empty")
    assert group not in ok("groups", "list", "--type", "consumer", *on)
    (offset,) = describe(group, on)["offsets"]
    assert (offset["committed"], offset["start"], offset["end"], offset["lag"]) == (4, 0, 10, 6)
    assert offset["member"] is None
    shown = ok("groups", "describe", group, *on)
    assert shown.splitlines()[0].startswith(f"{group}: classic, Empty") and shown.count("\n") == 4
    assert shown.splitlines()[-1] == "total lag: 6"
    assert json.loads(ok("groups", "delete", group, "--json", *on)) == {"deleted": [group]}
    assert group in failed("groups", "describe", group, *on)
    assert group in failed("groups", "delete", group, *on)


async def test_members_and_what_they_read(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str]
) -> None:
    import asyncio

    known = topic(partitions=2)
    fill(bootstrap, known, partitions=2)
    async with Consumer(
        known,
        bootstrap_servers=bootstrap,
        group_id=known,
        client_id="reader",
        auto_offset_reset="earliest",
    ) as consumer:
        await until(lambda: len(indexes(consumer)) == 2, consumer)
        shown = json.loads(await asyncio.to_thread(ok, "groups", "members", known, "--json", *on))
        (member,) = shown["members"]
        assert (member["client_id"], member["host"], shown["state"]) == ("reader", "127.0.0.1", "Stable")
        assert [one["partition"] for one in member["partitions"]] == [0, 1]
        text = await asyncio.to_thread(ok, "groups", "members", known, *on)
        assert f"{known}:0,1" in text
        described = await asyncio.to_thread(describe, known, on)
        assert {one["member"] for one in described["offsets"]} == {member["member"]}
        assert {one["end"] for one in described["offsets"]} == {10}
        problem = await asyncio.to_thread(failed, "groups", "delete", known, *on)
        assert known in problem
        refused = await asyncio.to_thread(
            invoke, "groups", "reset", known, "--topic", known, "--to", "earliest", "--execute", *on
        )
        assert refused.exit_code == 1


def test_a_reset_shows_first_and_changes_when_told(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(partitions=2, config={"retention.ms": "-1"}), name()
    stamp = 1_700_000_000_000
    for partition in range(2):
        messages = [Message(b"x", timestamp=stamp + 1_000 * at) for at in range(10)]
        confluent_produce(bootstrap, known, messages, partition=partition)
    set_offsets(bootstrap, group, {TopicPartition(known, 0): 4, TopicPartition(known, 1): 5})

    def reset(*where: str) -> dict[int, int]:
        plan = json.loads(ok("groups", "reset", group, *where, "--json", *on))
        assert plan["executed"] is False
        before = committed(group, on)
        assert {one["partition"]: one["before"] for one in plan["offsets"]}.items() <= before.items()
        json.loads(ok("groups", "reset", group, *where, "--execute", "--json", *on))
        after = {one["partition"]: one["after"] for one in plan["offsets"]}
        assert after.items() <= committed(group, on).items()
        return after

    assert reset("--all", "--shift", "3") == {0: 7, 1: 8}
    assert reset("--all", "--shift", "-100") == {0: 0, 1: 0}
    assert reset("--topic", f"{known}:1", "--offset", "6") == {1: 6}
    assert reset("--topic", known, "--to", "latest") == {0: 10, 1: 10}
    assert reset("--all", "--to", "earliest") == {0: 0, 1: 0}
    assert reset("--all", "--datetime", "2023-11-14T22:13:24Z") == {0: 4, 1: 4}
    assert reset("--all", "--duration", "1m") == {0: 10, 1: 10}
    shown = invoke("groups", "reset", group, "--all", "--to", "earliest", *on)
    assert "-10" in shown.stdout and "add --execute" in shown.stderr
    assert "no partition 7" in failed(
        "groups", "reset", group, "--topic", f"{known}:7", "--to", "latest", *on
    )
    assert "name topics" in failed("groups", "reset", name(), "--all", "--to", "latest", *on)


def test_offsets_of_one_topic_are_deleted(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    kept, gone, group = topic(), topic(), name()
    set_offsets(bootstrap, group, {TopicPartition(kept, 0): 0, TopicPartition(gone, 0): 0})
    ok("groups", "delete", group, "--topic", gone, *on)
    assert [one["topic"] for one in describe(group, on)["offsets"]] == [kept]
    assert gone in failed("groups", "delete", group, "--topic", gone, *on)


def test_settings_of_a_group(on: tuple[str, str], name: Callable[[], str]) -> None:
    group = name()
    ok("groups", "set", group, "consumer.session.timeout.ms=46000", *on)
    (entry,) = json.loads(
        ok("configs", "describe", "group", group, "consumer.session.timeout.ms", "--json", *on)
    )["configs"]
    assert (entry["value"], entry["source"]) == ("46000", "dynamic_group")
    ok("groups", "set", group, "consumer.session.timeout.ms=", *on)
    assert failed("groups", "set", group, "no.such.setting=1", *on)


def test_consuming_as_a_member_commits_what_was_printed(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(), name()
    fill(bootstrap, known)
    first = ok("consume", known, "--group", group, "--max", "4", *on)
    assert first == "0:0\n0:1\n0:2\n0:3\n"
    assert committed(group, on) == {0: 4}
    rest = ok("consume", known, "--group", group, "--exit", *on)
    assert rest == "".join(f"0:{at}\n" for at in range(4, 10))
    assert lag(group, on) == [(0, True)]
    assert ok("consume", known, "--group", name(), "--from", "end", "--exit", *on) == ""


# The lag


def transaction(bootstrap: str, topic: str, name: str, *values: bytes, commit: bool = True) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    for one in values:
        producer.produce(topic, one, partition=0)
    producer.flush(20)
    if commit:
        producer.commit_transaction(20)
    else:
        producer.abort_transaction(20)


def test_markers_and_aborted_records_are_no_lag(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(), name()
    zero = TopicPartition(known, 0)
    transaction(bootstrap, known, name(), b"a", b"b")  # 0, 1, marker 2
    transaction(bootstrap, known, name(), b"x", b"y", b"z", commit=False)  # 3, 4, 5, marker 6
    set_offsets(bootstrap, group, {zero: 2})
    assert lag(group, on) == [(0, True)]
    transaction(bootstrap, known, name(), b"c")  # 7, marker 8
    for position, expected in [(0, 3), (1, 2), (2, 1), (4, 1), (7, 1), (8, 0), (9, 0)]:
        set_offsets(bootstrap, group, {zero: position})
        assert lag(group, on) == [(expected, True)], position


@pytest.mark.parametrize(("isolation", "visible"), [("read_committed", 2), ("read_uncommitted", 3)])
async def test_a_reader_that_has_everything_has_no_lag(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], isolation: str, visible: int
) -> None:
    known = topic()
    transaction(bootstrap, known, f"{known}-1", b"a", b"b")
    transaction(bootstrap, known, f"{known}-2", b"x", commit=False)
    async with Consumer(
        known,
        bootstrap_servers=bootstrap,
        group_id=f"{known}-group",
        auto_offset_reset="earliest",
        isolation_level=isolation,
        enable_auto_commit=False,
    ) as consumer:
        values: list[bytes] = []
        async for record in consumer:
            values.append(record.value)
            await consumer.commit({TopicPartition(known, 0): OffsetAndMetadata(record.offset + 1)})
            if len(values) == visible:
                break
        assert values[:2] == [b"a", b"b"]
    assert await asyncio.to_thread(lag, f"{known}-group", on) == [(0, True)]


def test_a_wide_gap_is_given_as_the_distance(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(), name()
    confluent_produce(bootstrap, known, [Message(b"x")] * 20_001, **{"linger.ms": 50})
    set_offsets(bootstrap, group, {TopicPartition(known, 0): 0})
    assert lag(group, on) == [(20_001, False)]
    assert "<=20001" in ok("groups", "describe", group, *on)
    set_offsets(bootstrap, group, {TopicPartition(known, 0): 1_000})
    assert lag(group, on) == [(19_001, True)]


def test_a_share_group_is_described_reset_and_deleted(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    from tidelog import ShareConsumer

    known, group = topic(), name()
    fill(bootstrap, known)
    ok("groups", "set", group, "share.auto.offset.reset=earliest", *on)
    with ShareConsumer(known, group_id=group, bootstrap_servers=bootstrap) as consumer:
        found = 0
        while found < 10:
            found += len(consumer.poll(1_000))
        consumer.commit()
        members = json.loads(ok("groups", "members", group, "--json", *on))
        assert members["type"] == "share" and len(members["members"]) == 1
    listed = json.loads(ok("groups", "list", "--type", "share", "--json", *on))
    assert [one["state"] for one in listed if one["group"] == group] == ["Empty"]
    (offset,) = describe(group, on)["offsets"]
    assert (offset["topic"], offset["end"], offset["lag"]) == (known, 10, 0)
    plan = json.loads(ok("groups", "reset", group, "--all", "--offset", "4", "--json", *on))
    assert [one["after"] for one in plan["offsets"]] == [4] and plan["executed"] is False
    ok("groups", "reset", group, "--all", "--offset", "4", "--execute", *on)
    (offset,) = describe(group, on)["offsets"]
    assert (offset["committed"], offset["lag"]) == (4, 6)
    ok("groups", "delete", group, "--topic", known, *on)
    assert describe(group, on)["offsets"] == []
    ok("groups", "delete", group, *on)
    assert group not in ok("groups", "list", *on)


def test_a_partition_without_a_commit_lags_by_at_most_all_its_records(
    bootstrap: str, on: tuple[str, str], topic: Callable[..., str], name: Callable[[], str]
) -> None:
    from tidelog import Consumer

    known, group = topic(partitions=2), name()
    fill(bootstrap, known)
    with Consumer(
        known,
        group_id=group,
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=500) or consumer.assignment(), 60, "it has partitions")
        described = describe(group, on)
        text = ok("groups", "describe", group, *on)
    offsets = described["offsets"]
    assert [offset["committed"] for offset in offsets] == [None, None]
    assert [offset["lag"] for offset in offsets] == [offset["end"] for offset in offsets]
    assert [offset["lag_exact"] for offset in offsets] == [offset["end"] == 0 for offset in offsets]
    assert (described["lag"], described["lag_exact"]) == (10, False)
    assert "total lag: <=10" in text


def test_a_streams_group_is_shown_with_its_tasks(
    bootstrap: str, on: tuple[str, str], connection: Any, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    wide, narrow, group = topic(partitions=3), topic(partitions=1), name()
    await_coordinator(connection, group)
    member = StreamsMember(bootstrap, group)
    assert member.join(topology(subtopology("0", wide, narrow))) == 0
    settle(member)
    listed = {
        one["group"]: one for one in json.loads(ok("groups", "list", "--type", "streams", "--json", *on))
    }
    assert (listed[group]["type"], listed[group]["state"]) == ("streams", "Stable")
    (shown,) = json.loads(ok("groups", "members", group, "--json", *on))["members"]
    assert shown["tasks"] == {"active": ["0_0", "0_1", "0_2"], "standby": [], "warmup": []}
    places = [(place["topic"], place["partition"]) for place in shown["partitions"]]
    assert sorted(places) == sorted([(narrow, 0), (wide, 0), (wide, 1), (wide, 2)])
    assert "0_0 0_1 0_2" in ok("groups", "members", group, *on)
    read = {(one["topic"], one["partition"]): one["member"] for one in describe(group, on)["offsets"]}
    assert read == dict.fromkeys(places, shown["member"])
    assert "has members" in failed("groups", "delete", group, *on)
    assert member.leave() == 0
    member.close()
    ok("groups", "delete", group, *on)
