"""What is particular to SQLite behind the store."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidelog.clock import SystemClock
from tidelog.errors import KafkaStorageError
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.store import Put
from tidelog.testing import VirtualClock


def test_a_second_broker_on_the_same_file_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")
    first = connect(path)
    try:
        with pytest.raises(KafkaStorageError, match="is another broker running on it"):
            connect(path)
    finally:
        first.close()


def test_a_file_of_a_newer_tidelog_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")
    connection = connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(KafkaStorageError, match="newer Tidelog"):
        connect(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"not a database at all " * 100)
    with pytest.raises(KafkaStorageError, match="Cannot open the metadata store"):
        connect(str(path))


def test_commits_are_synced(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "metadata.sqlite"))
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()


@pytest.mark.simulated
async def test_a_failing_disk_is_a_storage_error_and_changes_nothing() -> None:
    connection = connect(":memory:")
    store = await SqliteStore.over(connection, ThreadPoolExecutor(1), VirtualClock())
    await store.txn((), [Put("a", b"1")])
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(KafkaStorageError, match="The metadata store has failed"):
        await store.txn((), [Put("a", b"2"), Put("b", b"2")])
    connection.execute("PRAGMA query_only = OFF")
    entry = await store.get("a")
    assert entry is not None and entry.value == b"1"
    assert not connection.in_transaction


async def test_what_was_answered_is_in_the_file_when_the_process_dies(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"

    with ThreadPoolExecutor(1) as executor:
        store = await SqliteStore.open(str(path), executor, SystemClock())
        await store.txn((), [Put("a", b"1")])
        # A copy of the files as they are, without closing: what a restart after kill -9 would find.
        for file in tmp_path.glob("metadata.sqlite*"):
            (tmp_path / file.name.replace("metadata", "copy")).write_bytes(file.read_bytes())
        await store.close()
    copy = sqlite3.connect(tmp_path / "copy.sqlite")
    assert copy.execute("SELECT key, value FROM entries").fetchall() == [("a", b"1")]
    copy.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        store = await SqliteStore.open(str(tmp_path / "m.sqlite"), executor, SystemClock())
        await store.close()
        with pytest.raises(KafkaStorageError, match="closed"):
            await store.get("a")


async def test_a_loop_that_stood_still_costs_nobody_a_lease_that_is_kept_alive(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        store = await SqliteStore.over(connect(":memory:"), executor, SystemClock())
        kept, silent = await store.lease(200), await store.lease(200)
        await store.txn((), [Put("kept", b"", kept.id), Put("silent", b"", silent.id)])

        async def keep() -> None:
            while await kept.keep_alive():
                await asyncio.sleep(0.05)

        keeping = asyncio.ensure_future(keep())
        await asyncio.sleep(0.01)
        time.sleep(0.5)  # noqa: ASYNC251  the loop stands still
        while await store.get("silent") is not None:
            await asyncio.sleep(0.01)
        assert await store.get("kept") is not None
        assert not keeping.done()
        keeping.cancel()
