"""A whole broker in this process, on a machine made of memory, whose router is handed frames as a connection would.

What comes back is an answer, silence (acks=0), or a refusal of the client's bytes.  Anything else is a bug."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.property.broker.requests import Known
from tidelog._speed.wire.delayed_produce import DelayedProduce
from tidelog._speed.wire.fetch_frames import decode_fetch
from tidelog._speed.wire.produce_frames import decode_produce
from tidelog._speed.wire.request_header import request_header
from tidelog.app.environment import BrokerEnvironment
from tidelog.app.lifecycle import Broker
from tidelog.broker.router import Router
from tidelog.broker.routes import FETCH, PRODUCE, ROUTES
from tidelog.config import BrokerConfig
from tidelog.errors import InvalidRequest
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.store import MetadataStore, Operation
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.replication.partition import HostedPartition
from tidelog.storage.compaction.runner import InlineRunner
from tidelog.testing import Machine, VirtualDisk, VirtualNetwork
from tidelog.types import NodeId
from tidelog.wire.frame import RequestHeader, decode_response_header, encode_request
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.primitives import Unencodable

DIRS = ("/data", "/more")
TOPICS: dict[str, dict[str, str]] = {
    "orders": {},
    "keyed": {"cleanup.policy": "compact"},
    "synced": {"flush.messages": "1"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"},
}
INIT_PRODUCER_ID = 22
LOADING_TURNS_MAX = 50
ANSWER_SECONDS_MAX = 60  # virtual ones


class Inside:
    def __init__(self, router: Router, services: Any, store: MetadataStore, disk: VirtualDisk) -> None:
        self.disk = disk
        self._router = router
        self._services = services
        self._store = store
        self.node: NodeId = services.node_id
        self.session = router.gate.open("PLAINTEXT", "fuzz:1")
        # As much of a connection as the router needs.
        self._connection: Any = SimpleNamespace(
            session=self.session,
            frames=0,
            unanswered=0,
            hold=lambda frames, waits: False,
            pause=lambda: None,
            resume=lambda: None,
        )
        self.known = Known()

    async def restore(self) -> None:
        """Requests may have deleted the topics that others want to find."""
        wanted = [TopicSpec(name, 2, configs=configs) for name, configs in TOPICS.items()]
        await self._services.controller.create_topics(wanted)
        topics = self._services.image().topics
        self.known = Known(list(TOPICS), [topics[name].id for name in TOPICS], DIRS)

    async def ask(self, frame: bytes) -> bytes | None:
        """The answer's bytes; None for silence or a refusal that is the client's fault."""
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        decodes = self._decodes(frame, key, version)
        try:
            pending = self._router.route(
                self._connection, memoryview(bytearray(frame)), key, version, correlation_id
            )
            if isinstance(pending, asyncio.Future):
                pending = await self._settled(pending, key)
        except Unencodable:
            raise
        except InvalidRequest:
            return None
        except ValueError:
            if decodes:
                raise
            return None
        if isinstance(pending, list):
            pending = b"".join(each if isinstance(each, bytes) else each.read() for each in pending)
        if pending is not None:
            size, answered = struct.unpack_from(">ii", pending)
            assert size == len(pending) - 4 and answered == correlation_id
            if key == FETCH and 7 <= version < 12:
                session_id = struct.unpack_from(">i", pending, 14)[0]
                self.known = replace(self.known, sessions=[session_id, *self.known.sessions[:3]])
        return pending

    async def ask_shortcut(self, frame: bytes) -> bytes | None:
        """What a connection tries first: None when it is not for the shortcut, empty for silence."""
        _, version, correlation_id = struct.unpack_from(">hhi", frame)
        taken = bytearray(frame)
        answer = self._router.shortcut.produce(taken, version, correlation_id, self.session)
        assert answer is not None or taken == frame, "the router is to see what the client has sent"
        if isinstance(answer, DelayedProduce):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(lambda _: done.set_result(None))
            await asyncio.wait_for(done, ANSWER_SECONDS_MAX)
            return answer.result()
        return answer

    def prove_lease(self, proven: bool) -> None:
        self._services.partitions.lease_proven = lambda: proven

    @property
    def queued_bytes(self) -> int:
        """What requests take that wait."""
        return int(self._router.queued.used)

    def held(self) -> list[HostedPartition]:
        return sorted(self._services.partitions.open_ones(), key=lambda partition: partition.name)

    def offsets(self) -> list[object]:
        """What groups have committed, shard by shard."""
        shards = self._services.groups.coordinator.shards()
        return [(shard.index, shard.machine.offsets.view()) for shard in shards]

    async def call(self, api_key: int, version: int, request: Any) -> bytes:
        """The body of the answer to a sound request."""
        asked = encode_request(RequestHeader(api_key, version, 1, None), request.encode(version))[4:]
        answer = await self.ask(asked)
        assert answer is not None
        _, at = decode_response_header(api_key, version, answer[4:])
        return answer[4 + at :]

    async def transactional_producer(self, name: str) -> InitProducerIdResponse:
        await self._services.transactions.topic.ensure()
        for _ in range(LOADING_TURNS_MAX):
            body = await self.call(INIT_PRODUCER_ID, 4, InitProducerIdRequest(name, 60_000))
            made = InitProducerIdResponse.decode(body, 4)
            if made.producer_id >= 0:
                return made
            await asyncio.sleep(0.1)
        raise AssertionError(f"no producer id: {made.error_code}")

    async def change(self, operations: list[Operation]) -> None:
        """Behind the controller's back, as another broker or the end of a lease would."""
        revision = await self._store.txn([], operations)
        assert revision is not None
        await self._services.controller.reached(revision)

    async def _settled(self, pending: asyncio.Future[Any], key: int) -> Any:
        done, _ = await asyncio.wait([pending], timeout=ANSWER_SECONDS_MAX)
        if done:
            return pending.result()
        assert key == FETCH, f"{ROUTES[key].name} was not answered"
        pending.cancel()  # a long poll, whose client leaves
        return None

    def _decodes(self, frame: bytes, key: int, version: int) -> bool:
        route = ROUTES.get(key)
        if route is None or not route.min_version <= version <= route.max_version:
            return False
        try:
            _, at = request_header(frame, version >= route.flexible_from)
            if key == PRODUCE:
                decode_produce(frame, at, version)
            elif key == FETCH:
                decode_fetch(frame, at, version)
        except ValueError:
            return False
        return key in (PRODUCE, FETCH)


@asynccontextmanager
async def broker_inside(random: Random, given: dict[str, str] | None = None) -> AsyncIterator[Inside]:
    """A broker that has two topics, and must be sound enough afterwards to stop cleanly."""
    network = VirtualNetwork(random)
    machine = Machine(network, "broker", random)
    config = BrokerConfig.of(
        {"listeners": "PLAINTEXT://broker:9092", "log.dirs": ",".join(DIRS), **(given or {})}
    )

    async def store(_: str) -> MetadataStore:
        return await SqliteStore.over(connect(":memory:"), None, machine.clock)  # type: ignore[arg-type]

    around = BrokerEnvironment(
        clock=machine.clock,
        network=machine.host,
        random=random,
        disk=lambda path: machine.disk,
        store=store,
        runner=InlineRunner,
        host_name=lambda: "broker",
        http=False,
        descriptors_max=1024,
    )
    broker = Broker(config, around)
    await broker.start()
    services = broker._services(NodeId(config.node_id))
    inside = Inside(Router(services), services, broker._store, machine.disk)
    await inside.restore()
    yield inside
    assert not broker.ended.done()
    await broker.stop()
