"""kill -9 while the broker is busy with something other than producing: compaction, topics that come and go, a move
between disks, retention, and its own clean end."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection, ConnectionClosed
from tests.conformance.topics import append, await_leaders, create_topic, describe, list_offset, read_all
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.history import Writer, check

ENDINGS = (ConnectionClosed, ConnectionError, OSError)


def leftovers(folder: Path) -> list[str]:
    """Files that only exist in the middle of something."""
    endings = (".cleaned", ".swap", ".deleted", ".tmp")
    return [str(path) for path in folder.rglob("*") if path.name.endswith(endings)]


def workers_of(pid: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "tidelog.storage.compaction.worker" in words and str(pid) in words:
            found.append(path.parent.name)
    return found


def test_a_compacted_topic_keeps_the_newest_value_of_every_key(new_broker: BrokerFactory) -> None:
    broker = new_broker({**SMALL, "log.cleaner.min.cleanable.ratio": "0.01"})
    broker.start()
    create_topic(broker.bootstrap, "keyed", 1, {"cleanup.policy": "compact"})
    newest: dict[bytes, bytes] = {}
    written = 0
    for round_number in range(4):
        with Connection(broker.bootstrap) as connection:
            await_leaders(connection, "keyed")
            for _ in range(60):
                records = []
                for _ in range(10):
                    key, value = b"key %d" % random.randrange(40), b"value %d" % written
                    records.append(Record(value, key))
                    newest[key] = value
                    written += 1
                assert append(connection, "keyed", batch(records)) == written - 10
        pid = broker.pid
        if round_number:  # in the first round the compactor may not have begun: that is a kill too
            wait_until(lambda: workers_of(pid), 20, "a compaction worker")  # noqa: B023
            time.sleep(random.random() / 5)
        broker.kill()
        wait_until(lambda: not workers_of(pid), 10, "the worker ends with its broker")  # noqa: B023
        broker.start()
    with Connection(broker.bootstrap) as connection:
        await_leaders(connection, "keyed")
        wait_until(
            lambda: len(read_all(connection, "keyed")) < written // 2, 30, "old values are compacted away"
        )
        found = read_all(connection, "keyed")
        offsets = [offset for offset, _ in found]
        assert offsets == sorted(set(offsets))
        assert {record.key: record.value for _, record in found} == newest
        assert list_offset(connection, "keyed", -1).offset == written
    broker.stop()
    assert not leftovers(broker.data)


def test_topics_that_come_and_go_are_there_or_not_there(new_broker: BrokerFactory) -> None:
    broker = new_broker(SMALL)
    broker.start()
    created: set[str] = set()
    deleted: set[str] = set()
    for round_number in range(4):
        killer = threading.Timer(0.05 + random.random() / 4, broker.send, [signal.SIGKILL])
        killer.start()
        try:
            with Connection(broker.bootstrap) as connection:
                for number in range(1000):
                    name = f"t-{round_number}-{number}"
                    wanted = {"name": name, "num_partitions": 3, "replication_factor": 1}
                    answer = connection.call("create_topics", 7, topics=[wanted], timeout=5000)
                    assert answer.topics[0].error_code == 0
                    created.add(name)
                    if number % 2:
                        gone = f"t-{round_number}-{number - 1}"
                        connection.send("delete_topics", 6, topics=[{"name": gone}], timeout=5000)
                        created.discard(gone)  # from here on it may be there or not
                        answer = connection.receive("delete_topics", 6)[1]
                        assert answer.responses[0].error_code == 0
                        deleted.add(gone)
        except ENDINGS:
            pass
        killer.join()
        assert broker.wait() == -signal.SIGKILL
        broker.start()
        with Connection(broker.bootstrap) as connection:
            for name in created:
                assert len(describe(connection, name).partitions) == 3
            for name in deleted:
                assert describe(connection, name).error_code.name == "unknown_topic_or_partition"
    check_folders(broker)
    with Connection(broker.bootstrap) as connection:
        for name in created:
            append(connection, name, batch([b"x"]), 2)


def check_folders(broker: FaultyBroker) -> None:
    """One folder for each partition that the metadata knows, and nothing else."""
    with Connection(broker.bootstrap) as connection:
        answer = connection.call("metadata", 12, topics=None)
        known = {f"{t.name}-{p.partition_index}" for t in answer.topics for p in t.partitions}

    def folders() -> set[str]:
        """Logs that the metadata does not know any more are parked beside them."""
        paths = [path for where in broker.folders for path in where.iterdir() if path.is_dir()]
        return {path.name for path in paths if not path.name.endswith("-stray")}

    wait_until(lambda: folders() == known, 10, "the folders are those of the topics")


def test_a_move_between_directories_happens_or_does_not(new_broker: BrokerFactory, tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    broker = new_broker(SMALL, dirs)
    broker.start()
    create_topic(broker.bootstrap, "numbers", 2)
    with Writer(broker.bootstrap, "numbers", 2) as writer:
        for number in range(4):
            reached = writer.acknowledged + 400
            wait_until(lambda: writer.acknowledged > reached, 30, f"acknowledgements in round {number}")  # noqa: B023
            with Connection(broker.bootstrap) as connection:
                for target in (dirs[number % 2], dirs[1 - number % 2], dirs[number % 2]):
                    move(connection, "numbers", target)
                    time.sleep(random.random() / 20)
            broker.kill()
            broker.start()
    check(writer, broker.bootstrap)
    with Connection(broker.bootstrap) as connection:
        move(connection, "numbers", dirs[0])
    wait_until(lambda: sorted(homes(dirs, "numbers")) == [(0, 0), (0, 1)], 20, "both are in the first one")
    check(writer, broker.bootstrap)
    check_folders(broker)
    broker.stop()
    broker.start()
    check(writer, broker.bootstrap)


def move(connection: Connection, topic: str, target: Path) -> None:
    wanted = [{"path": str(target), "topics": [{"name": topic, "partitions": [0, 1]}]}]
    answer = connection.call("alter_replica_log_dirs", 2, dirs=wanted)
    assert {p.error_code.name for p in answer.results[0].partitions} == {"none"}, answer


def homes(dirs: list[Path], topic: str) -> list[tuple[int, int]]:
    return [(n, i) for n, where in enumerate(dirs) for i in range(2) if (where / f"{topic}-{i}").exists()]


def test_retention_deletes_a_prefix_and_nothing_else(new_broker: BrokerFactory) -> None:
    broker = new_broker(SMALL)
    broker.start()
    create_topic(broker.bootstrap, "short", 1, {"retention.bytes": "20000"})
    written = 0
    for _ in range(4):
        with Connection(broker.bootstrap) as connection:
            await_leaders(connection, "short")
            for _ in range(200):
                assert append(connection, "short", batch([b"%d" % written + b" " * 200])) == written
                written += 1
        time.sleep(random.random() / 5)
        broker.kill()
        broker.start()
        with Connection(broker.bootstrap) as connection:
            await_leaders(connection, "short")
            start = list_offset(connection, "short", -2).offset
            found = read_all(connection, "short", start=start)
            assert [(o, int(r.value or b"")) for o, r in found] == [(n, n) for n in range(start, written)]
    with Connection(broker.bootstrap) as connection:
        wait_until(lambda: list_offset(connection, "short", -2).offset > written - 200, 20, "retention")
    broker.stop()
    assert not leftovers(broker.data)


@pytest.mark.parametrize("wait_s", [0.0, 0.002, 0.02, 0.1])
def test_a_kill_in_the_middle_of_a_clean_end(wait_s: float, new_broker: BrokerFactory) -> None:
    broker = new_broker(SMALL)
    broker.start()
    create_topic(broker.bootstrap, "numbers", 20)
    with Writer(broker.bootstrap, "numbers", 20) as writer:
        wait_until(lambda: writer.acknowledged > 500, 30, "acknowledgements")
        broker.send(signal.SIGTERM)
        time.sleep(wait_s)
        broker.kill()
        broker.start()
    check(writer, broker.bootstrap)
