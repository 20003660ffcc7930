"""A small produce request from its frame to its answer, written to a file of the system; no socket is involved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from bench.admin import Identity, Topic
from bench.micro.timing import Case
from bench.requests import PRODUCE_VERSION, ProduceFrame, single
from tidelog._speed.wire.session import Rules, SessionState
from tidelog._speed.wire.shortcut import ProduceShortcut
from tidelog.clock import SystemClock
from tidelog.config import TopicConfig
from tidelog.replication.partition import HostedPartition
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.types import Epoch, NodeId, TopicPartition

TOPIC = Topic("bench", UUID(int=1), 1)
NODE = NodeId(1)


def never(*_: object) -> None:
    raise AssertionError("nothing is synced here")


def request(folder: str, identity: Identity | None) -> Callable[[], object]:
    clock = SystemClock()
    volume = Volume.of(folder, SystemDisk(), clock, Random(1), OpenFiles(100))
    name = TopicPartition(f"bench-{identity is None}", 0)
    log = Log.open(volume, f"{folder}/{name.topic}-0", name, TopicConfig())
    partition = HostedPartition(name, TOPIC.id.bytes, NODE, log)
    partition.led(NODE, Epoch(0), frozenset((NODE,)), 1)
    shortcut = ProduceShortcut({(TOPIC.id.bytes, 0): partition}, clock.now_ms, lambda: True, never, ())
    frame = ProduceFrame(TOPIC, 0, single(100), identity)
    # The first batch of a log and of a producer goes through the handler.
    at = len(frame.renew(0)) - frame.batch_bytes - 3
    partition.append(memoryview(bytearray(frame.renew(0)))[at : at + frame.batch_bytes], clock.now_ms(), True)
    session = SessionState(Rules())
    session.admitted, session.produce_bytes_left = True, 1 << 62
    session.decided(anywhere=True)
    number = 0

    def produce() -> None:
        nonlocal number
        number += 1
        asked = memoryview(bytearray(frame.renew(number)))[4:]
        answer = shortcut.produce(asked, PRODUCE_VERSION, number, session)
        assert answer

    return produce


def cases() -> Iterator[Case]:
    frame = ProduceFrame(TOPIC, 0, single(100), Identity(1, 0))
    yield Case("only making the next request", lambda: memoryview(bytearray(frame.renew(1)))[4:])
    with tempfile.TemporaryDirectory() as folder:
        yield Case("a request of an idempotent producer", request(folder, Identity(1, 0)))
        yield Case("a request without a producer", request(folder, None))
