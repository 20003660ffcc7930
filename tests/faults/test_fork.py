"""Forks of a running broker: as of one cut, in files that both share and neither harms."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.faults.broker import FaultyBroker
from tests.faults.tiered import create, fill, offset_of, read
from tidelog.cli import cli
from tidelog.testing import broker

TOPIC = "orders"
COUNT = 6000  # about six segments
SEGMENTS = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
}


def fork(bootstrap: str, data: Path, *options: str) -> dict[str, int]:
    arguments = ["fork", "--data", str(data), "--bootstrap", bootstrap, "--json", *options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    described: dict[str, int] = json.loads(result.output)
    return described


def shared(data: Path, partition: str = f"{TOPIC}-0") -> list[Path]:
    return [path for path in sorted((data / partition).glob("*.log")) if path.stat().st_nlink > 1]


def commit_offset(bootstrap: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    try:
        return int(consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    data, new = tmp_path / "data", tmp_path / "new"
    with broker(SETTINGS, folder=data) as source:
        create(source.bootstrap_servers, TOPIC, SEGMENTS)
        fill(source.bootstrap_servers, TOPIC, 0, COUNT)
        commit_offset(source.bootstrap_servers, 1234)
        described = fork(source.bootstrap_servers, new)
        assert described["linked_bytes"] > 5_000_000 and described["copied_bytes"] < 1 << 20
        assert len(shared(new)) >= 5
        # Both are written to, and the source loses its old segments.
        fill(source.bootstrap_servers, TOPIC, COUNT, 1000)
        with broker(SETTINGS, folder=new) as forked:
            assert committed_offset(forked.bootstrap_servers) == 1234
            assert offset_of(forked.bootstrap_servers, TOPIC, -1) == COUNT
            fill(forked.bootstrap_servers, TOPIC, COUNT, 2000)
            admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
            where = confluent_kafka.TopicPartition(TOPIC, 0, COUNT)
            admin.delete_records([where])[where].result(30)
            wait_until(lambda: not shared(new), 30, "the source has deleted its segments")
            assert read(forked.bootstrap_servers, TOPIC, 0, COUNT + 2000) == list(range(COUNT + 2000))
        assert read(source.bootstrap_servers, TOPIC, COUNT, COUNT + 1000) == list(range(COUNT, COUNT + 1000))
        source.restart()
        assert read(source.bootstrap_servers, TOPIC, COUNT, COUNT + 1000) == list(range(COUNT, COUNT + 1000))


def test_a_fork_of_the_past(tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        at = source.bootstrap_servers
        create(at, TOPIC, SEGMENTS)
        fill(at, TOPIC, 0, 2500)
        commit_offset(at, 2000)
        time.sleep(0.05)
        moment = time.time_ns() // 1_000_000
        time.sleep(0.05)
        fill(at, TOPIC, 2500, COUNT - 2500)
        commit_offset(at, 5000)
        fork(at, tmp_path / "past", "--at", str(moment))
        described = fork(at, tmp_path / "middle", "--topic", TOPIC, "--at", f"{TOPIC}-0:500")
        assert described["partitions"] == 1 and described["left_out"] >= COUNT - 500
    with broker(SETTINGS, folder=tmp_path / "past") as past:
        assert offset_of(past.bootstrap_servers, TOPIC, -1) == 2500
        assert committed_offset(past.bootstrap_servers) == 2000
        fill(past.bootstrap_servers, TOPIC, 2500, 10)
        assert read(past.bootstrap_servers, TOPIC, 0, 2510) == list(range(2510))
    with broker(SETTINGS, folder=tmp_path / "middle") as middle:
        end = offset_of(middle.bootstrap_servers, TOPIC, -1)
        assert 0 < end <= 500
        assert read(middle.bootstrap_servers, TOPIC, 0, end) == list(range(end))


def test_both_are_killed_and_neither_harms_the_other(tmp_path: Path) -> None:
    """After a kill, recovery may cut or append to what was sealed: it must be a file of its own by then."""
    one = FaultyBroker(tmp_path / "one", SETTINGS)
    one.start()
    first = f"127.0.0.1:{one.port}"
    create(first, TOPIC, SEGMENTS)
    fill(first, TOPIC, 0, COUNT)
    data = tmp_path / "two" / "data"
    (tmp_path / "two").mkdir()
    fork(first, data)
    two = FaultyBroker(tmp_path / "two", SETTINGS, [data])
    two.start()
    second = f"127.0.0.1:{two.port}"
    fill(second, TOPIC, COUNT, 100)
    # The segment behind which the next records will come has room for them.
    larger = ["configs", "set", "topic", TOPIC, f"segment.bytes={16 << 20}", "--bootstrap", first]
    assert CliRunner().invoke(cli, larger).exit_code == 0
    for each in (one, two):
        each.send(signal.SIGKILL)
        each.wait()
    # A crash has lost what followed the last sealed segment of the source, and left half a batch in it.
    source = one.folders[0] / f"{TOPIC}-0"
    *_, sealed, active = sorted(source.glob("*.log"))
    for path in source.glob(f"{active.stem}.*"):
        path.unlink()
    end = int(active.stem)
    forked = data / f"{TOPIC}-0" / sealed.name
    before = forked.read_bytes()
    with sealed.open("ab") as file:
        file.write(b"torn")
    os.sync()
    one.start()
    fill(first, TOPIC, 1_000_000, 50)
    assert forked.read_bytes() == before + b"torn"
    two.start()
    assert read(second, TOPIC, 0, COUNT + 100) == list(range(COUNT + 100))
    assert read(first, TOPIC, 0, end + 50) == [*range(end), *range(1_000_000, 1_000_050)]
    for each in (one, two):
        each.stop()
        assert not each.unexpected()


def test_compaction_of_one_leaves_the_other_as_it_is(tmp_path: Path) -> None:
    compacted = SEGMENTS | {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "500",
    }
    with broker(SETTINGS | {"log.cleaner.enable": "false"}, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, compacted)
        for _ in range(2):
            fill(source.bootstrap_servers, TOPIC, 0, 1500)
        before = fork(source.bootstrap_servers, tmp_path / "new")
        assert before["linked_bytes"] > 1_000_000
        with broker(SETTINGS, folder=tmp_path / "new") as forked:
            fill(forked.bootstrap_servers, TOPIC, 0, 10)
            wait_until(lambda: not shared(tmp_path / "new"), 60, "the fork has compacted its segments")
        whole = sum(path.stat().st_size for path in (tmp_path / "data" / f"{TOPIC}-0").glob("*.log"))
        assert whole > 3_000_000
        source.restart()
        assert offset_of(source.bootstrap_servers, TOPIC, -1) == 3000


def test_what_a_fork_cannot_do_is_told(tmp_path: Path) -> None:
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, {})
        fill(source.bootstrap_servers, TOPIC, 0, 10)
        for options, text in (
            (["--data", str(tmp_path / "data")], "not an empty folder"),
            (["--data", str(tmp_path / "x"), "--topic", "nothing"], "no topic 'nothing'"),
            (["--data", str(tmp_path / "x"), "--at", f"{TOPIC}-0:11"], "does not reach offset 11"),
            (["--data", str(tmp_path / "x"), "--at", "noon"], "is not a point"),
        ):
            result = CliRunner().invoke(cli, ["fork", "--bootstrap", source.bootstrap_servers, *options])
            assert result.exit_code == 1 and text in result.output, result.output
            assert not (tmp_path / "x").exists()


def test_a_fork_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(old: str, new: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    with broker(SETTINGS, folder=tmp_path / "data") as source:
        create(source.bootstrap_servers, TOPIC, SEGMENTS)
        fill(source.bootstrap_servers, TOPIC, 0, COUNT)
        assert fork(source.bootstrap_servers, tmp_path / "new")["linked_bytes"] == 0
    assert not shared(tmp_path / "new")
    with broker(SETTINGS, folder=tmp_path / "new") as forked:
        assert read(forked.bootstrap_servers, TOPIC, 0, COUNT) == list(range(COUNT))
