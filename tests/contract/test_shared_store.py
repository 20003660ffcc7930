"""The store behind a Unix socket when its server dies, comes back, is restored or is spoken to wrongly."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.contract.world import SharedOnSocket
from tidelog import errors
from tidelog.metadata.local import messages
from tidelog.metadata.local import store as local_store
from tidelog.metadata.local.sockets import connect as connect_socket
from tidelog.metadata.store import Changes, Compare, KeyChange, LeaseEnded, Put, RolledBack, Unanswered

LONG_MS = 20_000


@pytest.fixture
def world(tmp_path: Path) -> SharedOnSocket:
    return SharedOnSocket(tmp_path)


async def next_of(watch: object) -> Changes:
    return await asyncio.wait_for(anext(watch), 30)  # type: ignore[call-overload, no-any-return]


async def test_two_processes_see_each_others_changes_and_swap_against_each_other(
    world: SharedOnSocket,
) -> None:
    first = await world.open()
    second = world.store()
    revision = await first.txn((), [Put("a", b"1")])
    assert revision is not None
    async with aclosing(second.watch("", revision)) as watch:
        assert await next_of(watch) == Changes(revision, (KeyChange("a", b"1"),))
    assert await second.txn([Compare("a", revision)], [Put("a", b"2")]) == revision + 1
    assert await first.txn([Compare("a", revision)], [Put("a", b"3")]) is None


async def test_a_watch_goes_on_when_the_server_is_started_again(world: SharedOnSocket) -> None:
    store = await world.open()
    start = await store.txn((), [Put("a", b"1")])
    assert start is not None
    async with aclosing(store.watch("", start)) as watch:
        assert (await next_of(watch)).revision == start
        waiting = asyncio.ensure_future(next_of(watch))
        await asyncio.sleep(0)
        await world.kill_server()
        reading = asyncio.ensure_future(store.get("a"))  # a read waits for the server, too
        await asyncio.sleep(0)
        await world.start_server()
        entry = await reading
        assert entry is not None and entry.value == b"1"
        second = await store.txn((), [Put("a", b"2")])
        assert second == start + 1
        assert await waiting == Changes(second, (KeyChange("a", b"2"),))


async def test_a_transaction_whose_server_ends_is_unanswered_and_not_sent_twice(
    world: SharedOnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await world.open()
    await store.txn((), [Put("a", b"1")])
    held = asyncio.Event()

    async def hold(*_: object) -> None:
        held.set()
        await asyncio.sleep(LONG_MS)

    assert world.server is not None
    world.server.handlers["txn"] = hold
    under_way = asyncio.ensure_future(store.txn((), [Put("a", b"2")]))
    await held.wait()
    await world.kill_server()
    await world.start_server()
    with pytest.raises(Unanswered, match="ended before it answered"):
        await under_way
    entry = await store.get("a")
    assert entry is not None and entry.value == b"1"


async def test_a_lease_outlasts_its_connection_and_not_its_server(world: SharedOnSocket) -> None:
    store = await world.open()
    lease = await store.lease(LONG_MS)
    await store.txn((), [Put("mine", b"", lease.id)])
    assert isinstance(store, local_store.LocalStore)
    await store.disconnect()
    assert await lease.keep_alive() and await store.get("mine") is not None

    await world.kill_server()
    await world.start_server()
    other = world.store()
    await other.lease(LONG_MS)  # an id that is counted from 1 would be taken for the old one
    assert not await lease.keep_alive()
    assert await store.get("mine") is None
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("mine", b"", lease.id)])


async def test_a_store_that_was_restored_from_a_backup_is_noticed(world: SharedOnSocket) -> None:
    store = await world.open()
    await store.txn((), [Put("a", b"1")])
    await world.kill_server()
    file = world.folder / "metadata.sqlite"
    shutil.copy(file, world.folder / "backup")
    await world.start_server()
    last = 0
    for _ in range(3):
        last = await store.txn((), [Put("a", b"2")]) or 0
    async with aclosing(store.watch("", last)) as watch:
        assert (await next_of(watch)).revision == last
        waiting = asyncio.ensure_future(next_of(watch))
        await asyncio.sleep(0)
        await world.kill_server()
        shutil.copy(world.folder / "backup", file)
        await world.start_server()
        with pytest.raises(RolledBack, match="restored from a backup"):
            await waiting


async def test_nobody_there_is_told_with_the_way_out(
    world: SharedOnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_store, "CHECK_MS", 100)
    with pytest.raises(errors.KafkaStorageError, match="start the store with `tidelog metadata serve`"):
        await world.store().check()


async def test_only_the_owner_can_connect_and_a_stale_socket_is_replaced(world: SharedOnSocket) -> None:
    os.mknod(world.socket, stat.S_IFSOCK | 0o777)
    store = await world.open()
    assert stat.S_IMODE(os.stat(world.socket).st_mode) == 0o600
    assert await store.get("a") is None


@pytest.mark.parametrize(
    "bytes_sent",
    [b"\0\0\0\3abc", b"\0\0\0\4[1]\n", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["no JSON", "no object", "too long", "HTTP"],
)
async def test_a_connection_that_speaks_otherwise_is_closed_and_others_go_on(
    world: SharedOnSocket, bytes_sent: bytes
) -> None:
    store = await world.open()
    await store.txn((), [Put("a", b"1")])
    reader, writer = await asyncio.open_unix_connection(sock=connect_socket(world.socket))
    writer.write(bytes_sent)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()
    assert await store.get("a") is not None


@pytest.mark.parametrize(
    ("request_fields", "text"),
    [
        ({"call": "dance"}, "differ in version"),
        ({"call": "get"}, "cannot be read"),
        ({"call": "txn", "compare": [], "then": [["put"]]}, "cannot be read"),
        ({"call": "txn", "compare": [[1]], "then": []}, "cannot be read"),
    ],
)
async def test_a_request_that_cannot_be_read_is_answered_with_an_error(
    world: SharedOnSocket, request_fields: dict[str, object], text: str
) -> None:
    await world.open()
    reader, writer = await asyncio.open_unix_connection(sock=connect_socket(world.socket))
    writer.write(messages.encode({"id": 7, **request_fields}))
    size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 30), "big")
    answer = messages.decode(await reader.readexactly(size))
    assert answer["id"] == 7 and text in answer["text"]
    writer.close()
