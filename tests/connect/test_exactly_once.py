"""Files into a topic and into a database, while workers and the broker are killed: each line once, in order."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from pathlib import Path

import pytest

from tests.conformance.process import wait_until
from tests.connect.conftest import NewWorker
from tests.connect.topics import values
from tests.connect.workers import Worker
from tidelog.testing import ChildBroker

LINES = 400


def rows_of(database: Path) -> list[int]:
    with sqlite3.connect(database) as connection:
        try:
            return [row[0] for row in connection.execute("SELECT n FROM lines ORDER BY rowid")]
        except sqlite3.OperationalError:
            return []


def play(own_broker: ChildBroker, worker_of: NewWorker, tmp_path: Path, kills: int) -> None:
    dice = random.Random(int(os.environ.get("TIDELOG_SEED", "7")))
    bootstrap, source, database = own_broker.bootstrap_servers, tmp_path / "in.txt", tmp_path / "rows.db"
    source.touch()
    workers = [worker_of(bootstrap, "connect") for _ in range(2)]
    workers[0].create(
        "lines", connector_class="FileSource", file=source, topic="lines", value_converter="string"
    )
    workers[0].create(
        "rows",
        connector_class="JdbcSink",
        topics="lines",
        connection_url=f"jdbc:sqlite:{database}",
        **{"insert_mode": "insert", "pk_mode": "none", "auto_create": "true", "batch_max_rows": "50"},
    )
    written = 0

    def write(count: int) -> None:
        nonlocal written
        with source.open("a") as file:
            for _ in range(count):
                file.write(json.dumps({"n": written}) + "\n")
                written += 1

    for _ in range(kills):
        write(LINES)
        seen = len(rows_of(database))
        wait_until(lambda seen=seen: len(rows_of(database)) > seen, 120, "rows arrive")
        victim: Worker | ChildBroker = dice.choice([*workers, own_broker])
        victim.kill()
        write(LINES)
        victim.start()
    write(LINES)
    wait_until(lambda: len(rows_of(database)) >= written, 180, f"all {written} rows arrive")
    assert rows_of(database) == list(range(written))
    assert [json.loads(value or b"")["n"] for value in values(bootstrap, "lines")] == list(range(written))


def test_workers_and_a_broker_that_are_killed_lose_and_repeat_nothing(
    own_broker: ChildBroker, worker_of: NewWorker, tmp_path: Path
) -> None:
    play(own_broker, worker_of, tmp_path, kills=5)


@pytest.mark.deep
def test_many_kills(own_broker: ChildBroker, worker_of: NewWorker, tmp_path: Path) -> None:
    play(own_broker, worker_of, tmp_path, kills=50)


def test_a_worker_that_was_frozen_does_not_write_beside_its_successor(
    own_broker: ChildBroker, worker_of: NewWorker, tmp_path: Path
) -> None:
    import signal

    bootstrap, source = own_broker.bootstrap_servers, tmp_path / "in.txt"
    source.write_text("".join(f"{number}\n" for number in range(LINES)))
    frozen = worker_of(bootstrap, "connect")
    frozen.create("lines", connector_class="FileSource", file=source, topic="lines", value_converter="string")
    wait_until(lambda: frozen.runs("lines"), 60, "the source runs")
    wait_until(lambda: len(values(bootstrap, "lines")) == LINES, 60, "the lines arrive")
    other = worker_of(bootstrap, "connect")
    os.kill(frozen.pid, signal.SIGSTOP)
    with source.open("a") as file:
        file.writelines(f"{number}\n" for number in range(LINES, 2 * LINES))
    wait_until(
        lambda: [task["worker_id"] for task in other.status("lines")["tasks"]] == [other.id],
        60,
        "the other worker takes over",
    )
    os.kill(frozen.pid, signal.SIGCONT)
    wait_until(lambda: len(values(bootstrap, "lines")) >= 2 * LINES, 60, "the new lines arrive")
    with source.open("a") as file:
        file.write("last\n")
    wait_until(lambda: values(bootstrap, "lines")[-1] == b"last", 60, "the last line arrives")
    assert values(bootstrap, "lines") == [b"%d" % number for number in range(2 * LINES)] + [b"last"]
