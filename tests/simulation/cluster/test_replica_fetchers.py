"""Replicas that are in sync do not share a fetch with those that catch up."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.cluster.play import play
from tidelog.replication import leader_fetchers
from tidelog.replication.follower_fetch import Key, Wanted
from tidelog.replication.leader_fetchers import CATCH_UP_BYTES_MAX
from tidelog.replication.replica_fetcher import ReplicaFetcher
from tidelog.storage.log import Log, is_offline
from tidelog.wire.messages.fetch import FetchResponse

UNWRITTEN_BYTES = 500


def test_a_partition_is_asked_for_by_the_fetcher_it_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ReplicaFetcher._ask
    asked: Counter[tuple[bool, bool]] = Counter()

    async def checked(
        self: ReplicaFetcher, connection: object, wanted: dict[Key, Wanted]
    ) -> FetchResponse | None:
        assert self.asked.keys() == wanted.keys()
        assert self.asked.keys().isdisjoint(self.beside.asked)
        catches_up = self._bytes_max == CATCH_UP_BYTES_MAX
        asked.update((catches_up, partition.in_sync_here) for partition, _ in self.asked.values())
        return await ask(self, connection, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(ReplicaFetcher, "_ask", checked)
    for seed in range(4):
        play(seed)
    assert asked[False, True] > 100 and asked[True, False] > 20
    # Metadata that is just being applied may be a step ahead of the fetchers.
    assert asked[True, True] + asked[False, False] < 0.1 * asked.total()


def _log_of(fetcher: ReplicaFetcher, key: Key) -> Log | None:
    following = fetcher.followed.get(key) or fetcher.beside.followed.get(key)
    return None if following is None else following.partition.log


def test_what_catches_up_is_on_disk_before_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, write_out = ReplicaFetcher._ask, ReplicaFetcher._write_out
    written: Counter[bool] = Counter()

    async def checked(
        self: ReplicaFetcher, connection: object, wanted: dict[Key, Wanted]
    ) -> FetchResponse | None:
        assert self._unwritten < UNWRITTEN_BYTES
        return await ask(self, connection, wanted)  # type: ignore[arg-type]

    async def seen(self: ReplicaFetcher) -> None:
        ends = {it: it.end for key in self._grown if (it := _log_of(self, key)) is not None}
        await write_out(self)
        # A log may be cut, and a disk may fail, while it is waited for.
        written.update(
            it.recovery_point >= min(end, it.end) for it, end in ends.items() if not is_offline(it)
        )

    monkeypatch.setattr(leader_fetchers, "UNWRITTEN_BYTES_MAX", UNWRITTEN_BYTES)
    monkeypatch.setattr(ReplicaFetcher, "_ask", checked)
    monkeypatch.setattr(ReplicaFetcher, "_write_out", seen)
    for seed in range(7):
        play(seed)
    assert written[True] > 20 and not written[False]
