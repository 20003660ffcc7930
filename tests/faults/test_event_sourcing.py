"""Event sourcing on a real broker: concurrent decisions, kill -9, read models that count each event once."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.process import wait_until
from tests.unit.events.accounts import Account, Balances, Deposited, Insufficient, Withdrawn
from tidelog import Admin, NewTopic
from tidelog.events import EventError, EventStore, VersionConflict

SECONDS_MAX = 120
ACCOUNTS = 8
THREADS = 4


@pytest.fixture
def broker(new_broker: Callable[..., Any]) -> Iterator[Any]:
    made = new_broker()
    made.start()
    yield made
    made.stop()


def rows(path: Path) -> dict[str, tuple[int, int]]:
    with closing(sqlite3.connect(path)) as db:
        return {name: (cents, changes) for name, cents, changes in db.execute("SELECT * FROM balances")}


def test_aggregates_are_saved_loaded_and_refused(broker: Any, tmp_path: Path) -> None:
    with EventStore(broker.bootstrap, topic="accounts", partitions=3, cache=str(tmp_path / "cache")) as store:
        alice = store.load(Account, "alice")
        assert not alice.exists
        alice.deposit(500)
        alice.withdraw(200)
        store.save(alice, {"by": "test"})
        stale = store.load(Account, "alice")
        assert (stale.cents, stale.version) == (300, alice.version)
        time.sleep(0.01)
        middle_ms = int(time.time() * 1000)
        time.sleep(0.01)
        alice.withdraw(300)
        store.save(alice)
        stale.withdraw(300)
        with pytest.raises(VersionConflict, match="is not at version"):
            store.save(stale)
        assert store.load(Account, "alice").cents == 0
        assert store.load(Account, "alice", at_ms=middle_ms).cents == 300
        assert [recorded.event for recorded in store.history("alice")] == [
            Deposited(500),
            Withdrawn(200),
            Withdrawn(300),
        ]
        assert store.history("alice")[0].meta == {"by": "test"}
        with pytest.raises(Insufficient):
            store.execute(Account, "alice", lambda account: account.withdraw(1))
        store.delete(store.load(Account, "alice"))
        assert not store.load(Account, "alice").exists
        store.execute(Account, "alice", lambda account: account.deposit(7))
    with EventStore(broker.bootstrap, topic="accounts", cache=str(tmp_path / "cache")) as store:
        assert store.partitions == 3 and store.load(Account, "alice").cents == 7
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("plain", 1, 1)])
    with pytest.raises(EventError, match=r"tidelog configs set topic plain conditional\.append\.enable=true"):
        EventStore(broker.bootstrap, topic="plain")


def test_concurrent_decisions_and_kills_lose_and_double_nothing(broker: Any, tmp_path: Path) -> None:
    done = threading.Event()
    deposited = [dict.fromkeys(range(ACCOUNTS), 0) for _ in range(THREADS)]
    read_model = tmp_path / "balances.sqlite"
    problems: list[BaseException] = []

    def work(mine: dict[int, int]) -> None:
        try:
            with EventStore(broker.bootstrap, topic="accounts", partitions=2) as store:
                number = 0
                while not done.is_set():
                    number += 1
                    account = number % ACCOUNTS
                    store.execute(Account, f"a{account}", lambda it: it.deposit(1), attempts=1000)
                    mine[account] += 1
        except BaseException as problem:
            problems.append(problem)

    def project() -> None:
        try:
            with EventStore(broker.bootstrap, topic="accounts", partitions=2) as store:
                Balances().run(store, str(read_model), lambda: not done.is_set())
        except BaseException as problem:
            problems.append(problem)

    with EventStore(broker.bootstrap, topic="accounts", partitions=2) as store:
        threads = [threading.Thread(target=work, args=(mine,)) for mine in deposited]
        threads.append(threading.Thread(target=project))
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                goal = count(deposited) + 60
                wait_until(
                    lambda goal=goal: problems or count(deposited) >= goal, SECONDS_MAX, "deposits are made"
                )
                os.kill(broker.pid, signal.SIGKILL)
                broker.wait()
                broker.start()
            goal = count(deposited) + 60
            wait_until(lambda: problems or count(deposited) >= goal, SECONDS_MAX, "deposits are made")
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not problems, problems
        wanted = {f"a{account}": sum(mine[account] for mine in deposited) for account in range(ACCOUNTS)}
        assert {name: store.load(Account, name).cents for name in wanted} == wanted
        Balances().catch_up(store, str(read_model))
        assert rows(read_model) == {name: (cents, cents) for name, cents in wanted.items()}
        with closing(sqlite3.connect(read_model)) as db:
            db.execute("UPDATE balances SET cents = 0")
            db.commit()
        Balances().rebuild(store, str(read_model))
        assert rows(read_model) == {name: (cents, cents) for name, cents in wanted.items()}


def test_the_guide_runs_as_written(broker: Any, tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "event-sourcing.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(blocks) == 4
    program = tmp_path / "guide.py"
    program.write_text("\n".join(blocks).replace("127.0.0.1:9092", broker.bootstrap))
    ran = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert ran.returncode == 0 and ran.stdout == "300\n", ran.stderr
    with closing(sqlite3.connect(tmp_path / "balances.sqlite")) as db:
        assert db.execute("SELECT * FROM balances").fetchall() == [("alice", 500)]


def count(deposited: list[dict[int, int]]) -> int:
    return sum(sum(mine.values()) for mine in deposited)
