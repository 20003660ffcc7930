"""An etcd whose data were restored to an earlier state from a backup."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.contract.etcd import Etcd
from tests.contract.world import RealEtcd
from tidelog.metadata.store import Changes, Put, RolledBack

PATIENCE_S = 180


async def test_a_watch_is_told_that_etcd_has_lost_what_it_had_told(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    member = etcd.members[0]
    etcd.start()
    try:
        world = RealEtcd(etcd)
        store = world.store("1")
        await store.txn((), [Put("kept", b"")])
        member.kill()
        shutil.copytree(member.home, tmp_path / "backup")
        etcd.start()
        revision = 0
        for number in range(20):
            revision = await store.txn((), [Put("lost", b"%d" % number)]) or 0
        async with aclosing(store.watch("", revision + 1)) as watch:
            following = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0.5)
            assert not following.done()
            member.kill()
            shutil.rmtree(member.home)
            shutil.copytree(tmp_path / "backup", member.home)
            etcd.start()
            with pytest.raises(RolledBack, match="restored from a backup"):
                await asyncio.wait_for(following, PATIENCE_S)
        await store.close()
    finally:
        etcd.stop()


async def test_a_restored_etcd_that_has_grown_past_what_was_told_is_noticed(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    member = etcd.members[0]
    etcd.start()
    try:
        store, other = RealEtcd(etcd).store("1"), RealEtcd(etcd).store("2")
        revision = await store.txn((), [Put("kept", b"")]) or 0
        async with aclosing(store.watch("", revision + 1)) as watch:
            member.kill()
            shutil.copytree(member.home, tmp_path / "backup")
            etcd.start()
            following: asyncio.Future[Changes] = asyncio.ensure_future(anext(watch))
            await store.txn((), [Put("lost", b"")])
            assert (await asyncio.wait_for(following, PATIENCE_S)).changes[0].key == "lost"
            following = asyncio.ensure_future(anext(watch))
            member.kill()
            shutil.rmtree(member.home)
            shutil.copytree(tmp_path / "backup", member.home)
            etcd.start()
            for number in range(10):
                await other.txn((), [Put("other", b"%d" % number)])
            with pytest.raises(RolledBack, match="restored from a backup"):
                await asyncio.wait_for(following, PATIENCE_S)
        await store.close()
        await other.close()
    finally:
        etcd.stop()


async def test_a_watch_goes_on_over_a_restart_without_a_loss(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    etcd.start()
    try:
        store = RealEtcd(etcd).store("1")
        revision = await store.txn((), [Put("a", b"1")]) or 0
        async with aclosing(store.watch("", revision + 1)) as watch:
            following: asyncio.Future[Changes] = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0.5)
            etcd.members[0].kill()
            etcd.start()
            await store.txn((), [Put("a", b"2")])
            assert (await asyncio.wait_for(following, PATIENCE_S)).changes[0].value == b"2"
        await store.close()
    finally:
        etcd.stop()
