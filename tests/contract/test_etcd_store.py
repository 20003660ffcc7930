"""What only the etcd store has: endpoints that are wrong, users and passwords, encryption, roots, and its bookkeeping."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.process import free_port
from tests.contract.etcd import Etcd
from tests.contract.etcd_access import PASSWORD, USER, certificates, give_users, make_certificates
from tests.contract.world import RealEtcd
from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import EtcdRefused
from tidelog.metadata.store import Compare, Put, Unanswered


async def test_a_wrong_address_among_right_ones_is_passed_over(etcd: Etcd) -> None:
    wrong = f"127.0.0.1:{free_port()}"
    async with RealEtcd(etcd) as world:
        for endpoints in [
            (wrong, *etcd.endpoints),
            (*etcd.endpoints, wrong),
            ("no.such.host.invalid:1", *etcd.endpoints),
        ]:
            store = world.store(endpoints=endpoints)
            assert await store.txn((), [Put("a", b"")]) is not None


async def test_without_any_right_address_the_message_names_them_and_the_reason(etcd: Etcd) -> None:
    wrong = f"127.0.0.1:{free_port()}"
    async with RealEtcd(etcd) as world:
        with pytest.raises(
            Unanswered, match=rf"etcd at {wrong} did not answer: .*refused.*: check that it runs"
        ):
            await world.client(endpoints=(wrong,)).call(messages.RANGE, messages.range_request(b"a"), 500)


async def test_a_server_that_accepts_and_never_answers_is_left(etcd: Etcd) -> None:
    async with RealEtcd(etcd) as world:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            store = world.store(endpoints=(f"127.0.0.1:{mute.getsockname()[1]}", *etcd.endpoints))
            assert await store.txn((), [Put("a", b"")]) is not None


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_whose_connection_is_closed_under_it_is_made_again(etcd: Etcd, streamed: bool) -> None:
    """As after a pause that was longer than a link has to end its calls.  It must not look like a cancellation: that would
    end whatever loop of the broker has made the call."""
    async with RealEtcd(etcd) as world:
        lease = await world.store().lease(60_000)
        request = messages.lease_request(lease.id) if streamed else messages.range_request(b"a")
        method = messages.LEASE_KEEP_ALIVE if streamed else messages.RANGE
        with socket.create_server(("127.0.0.1", 0)) as mute:
            address = f"127.0.0.1:{mute.getsockname()[1]}"
            client = world.client(endpoints=(address, *etcd.endpoints))
            while client.link().endpoint != address:
                client.leave(client.link())
            calling = asyncio.create_task(client.call(method, request, streamed=streamed))
            await asyncio.sleep(0.2)
            await client.link().channel.close(0)
            assert (await calling).tries == 2


async def test_a_call_that_is_given_up_stays_so(etcd: Etcd) -> None:
    async with RealEtcd(etcd) as world:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            client = world.client(endpoints=(f"127.0.0.1:{mute.getsockname()[1]}",))
            calling = asyncio.create_task(client.call(messages.RANGE, messages.range_request(b"a")))
            await asyncio.sleep(0.2)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling


async def test_roots_keep_clusters_apart(etcd: Etcd) -> None:
    async with RealEtcd(etcd) as near, RealEtcd(etcd) as other:
        first, second = near.store(), other.store()
        await first.txn((), [Put("a", b"1")])
        await second.txn((), [Put("a", b"2"), Put("b", b"")])
        assert [(entry.key, entry.value) for entry in (await first.range("")).entries] == [("a", b"1")]
        assert len((await second.range("")).entries) == 2
        await other.client().close()


HOLDER = """
import asyncio, sys
from random import Random
from tidelog.clock import SystemClock
from tidelog.metadata.etcd.client import EtcdAccess, EtcdClient
from tidelog.metadata.etcd.store import EtcdStore
from tidelog.metadata.store import Put

async def hold():
    store = EtcdStore(EtcdClient(EtcdAccess((sys.argv[1],)), SystemClock(), Random(0)), sys.argv[2], "holder")
    lease = await store.lease(1000)
    await store.txn((), [Put("held", b"", lease.id)])
    print("held", flush=True)
    while await lease.keep_alive():
        await asyncio.sleep(0.2)
    print("lost", flush=True)

asyncio.run(hold())
"""


def hold(etcd: Etcd, root: str) -> subprocess.Popen[str]:
    """A process that keeps a lease alive."""
    command = [sys.executable, "-c", HOLDER, etcd.endpoints[0], root]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_a_frozen_holder_loses_its_lease(etcd: Etcd) -> None:
    async with RealEtcd(etcd) as world:
        store = await world.open()
        process = hold(etcd, world.root)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            await asyncio.sleep(2 * world.ttl_ms / 1000)
            assert await store.get("held") is not None, "it is kept alive"
            os.kill(process.pid, signal.SIGSTOP)
            while await store.get("held") is not None:
                await asyncio.sleep(0.05)
            os.kill(process.pid, signal.SIGCONT)
            assert process.stdout.readline() == "lost\n"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


async def test_two_stores_that_swap_the_same_key_do_not_lose_a_count(etcd: Etcd) -> None:

    async def add(writer: str, times: int) -> None:
        store = world.store(writer)
        while times:
            entry = await store.get("n")
            value, revision = (0, 0) if entry is None else (int(entry.value), entry.revision)
            if await store.txn([Compare("n", revision)], [Put("n", b"%d" % (value + 1))]) is not None:
                times -= 1

    async with RealEtcd(etcd) as world:
        await asyncio.gather(*(add(str(number), 20) for number in range(5)))
        entry = await world.store().get("n")
        assert entry is not None and entry.value == b"100"


# Users


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Etcd]:
    running = Etcd(tmp_path)
    running.start()
    yield running
    running.stop()


async def test_a_user_with_the_password_reads_writes_and_watches_below_the_root(own: Etcd) -> None:
    async with RealEtcd(own) as world:
        await give_users(world.client(), world.root)
        store = world.store(user=USER, password=PASSWORD)
        revision = await store.txn((), [Put("a", b"1")])
        assert revision is not None
        watch = store.watch("", revision)
        assert (await anext(watch)).revision == revision
        await watch.aclose()
        lease = await store.lease(5_000)
        await store.txn((), [Put("b", b"", lease.id)])
        assert await lease.keep_alive()
        await lease.end()
        assert [entry.key for entry in (await store.range("")).entries] == ["a"]


async def test_wrong_passwords_no_user_and_keys_of_others_are_refused_with_the_way_out(own: Etcd) -> None:
    async with RealEtcd(own) as world, RealEtcd(own) as elsewhere:
        await give_users(world.client(), world.root)
        with pytest.raises(EtcdRefused, match=r"check tidelog\.metadata\.user"):
            await world.store(user=USER, password="wrong").get("a")
        with pytest.raises(EtcdRefused, match=r"set tidelog\.metadata\.user"):
            await world.store().get("a")
        world.root, mine = elsewhere.root, world.root
        other = world.store(user=USER, password=PASSWORD)
        world.root = mine
        with pytest.raises(EtcdRefused, match="grant the user"):
            await other.get("a")
        with pytest.raises(EtcdRefused, match="permission denied"):
            await anext(other.watch("", 1))


async def test_a_token_that_etcd_has_forgotten_is_renewed(own: Etcd) -> None:
    async with RealEtcd(own) as world:
        await give_users(world.client(), world.root)
        store = world.store(user=USER, password=PASSWORD)
        revision = await store.txn((), [Put("a", b"1")])
        assert revision is not None
        watch = store.watch("", revision)
        assert (await anext(watch)).revision == revision
        # Tokens live in the memory of etcd.
        own.stop()
        await asyncio.to_thread(own.start)
        following = await store.txn((), [Put("a", b"2")])
        assert (await asyncio.wait_for(anext(watch), 10)).revision == following
        await watch.aclose()


# Encryption


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[Etcd, Path]]:
    """An etcd that wants certificates, and the folder of these."""
    folder = tmp_path / "certificates"
    make_certificates(folder)
    etcd = Etcd(tmp_path, options=certificates(folder))
    etcd.start()
    yield etcd, folder
    etcd.stop()


async def test_an_encrypted_etcd_that_wants_certificates_is_used(encrypted: tuple[Etcd, Path]) -> None:
    etcd, folder = encrypted
    ca, cert, key = ((folder / name).read_bytes() for name in ("ca.pem", "client.pem", "client.key"))
    async with RealEtcd(etcd) as world:
        store = world.store(ca=ca, cert=cert, key=key)
        revision = await store.txn((), [Put("a", b"1")])
        assert revision is not None
        watch = store.watch("", revision)
        assert (await anext(watch)).revision == revision
        await watch.aclose()
        for access in ({}, {"ca": ca}, {"ca": cert, "cert": cert, "key": key}):
            with pytest.raises(Unanswered):
                await world.client(**access).call(messages.RANGE, messages.range_request(b"a"), 500)
