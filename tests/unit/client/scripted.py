"""A small broker for client tests, on the in-memory network: it keeps the rules that matter to a client
(leaders, sequence numbers, offsets) and fails where a test tells it to.  Several of them share one
`World`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog import errors
from tidelog._speed.log.batch import Header, header_at, stamp
from tidelog.testing import VirtualHost
from tidelog.types import TopicPartition
from tidelog.wire import frame
from tidelog.wire.messages import api_versions, fetch, init_producer_id, list_offsets, metadata, produce

REMEMBERED = 5
SERVED = {
    produce.ProduceRequest: (3, 13),
    fetch.FetchRequest: (4, 17),
    list_offsets.ListOffsetsRequest: (1, 10),
    metadata.MetadataRequest: (0, 13),
    api_versions.ApiVersionsRequest: (0, 4),
    init_producer_id.InitProducerIdRequest: (0, 5),
}
BY_KEY = {request.API_KEY: request for request in SERVED}


class Drop(Exception):
    """Raised by a script: the connection ends without an answer."""


class Stored(NamedTuple):
    base: int
    last: int
    data: bytes


@dataclass
class PartitionLog:
    batches: list[Stored] = field(default_factory=list)
    producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = field(default_factory=dict)
    start: int = 0
    end: int = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset), by Kafka's rules for sequence numbers."""
        header = header_at(data)
        assert header is not None and header.size == len(data)
        if header.producer_id >= 0:
            code, known = self._sequence(header)
            if code or known is not None:
                return code, -1 if known is None else known
        return 0, self.write(data)

    def write(self, data: bytes, gap: int = 0) -> int:
        header = header_at(data)
        assert header is not None
        base = self.end + gap
        copy = bytearray(data)
        stamp(copy, 0, base, 0)
        self.batches.append(Stored(base, base + header.last_offset_delta, bytes(copy)))
        self.end = base + header.last_offset_delta + 1
        if header.producer_id >= 0:
            _, seen = self.producers[header.producer_id]
            seen.append((header.base_sequence, header.count, base))
            del seen[:-REMEMBERED]
        return base

    def _sequence(self, header: Header) -> tuple[int, int | None]:
        epoch, seen = self.producers.get(header.producer_id, (-1, []))
        if header.producer_epoch < epoch:
            return errors.InvalidProducerEpoch.code, None
        if header.producer_epoch > epoch:
            if header.base_sequence != 0 and epoch >= 0:
                return errors.OutOfOrderSequenceNumber.code, None
            self.producers[header.producer_id] = (header.producer_epoch, [])
            return 0, None
        for first, count, base in seen:
            if (first, count) == (header.base_sequence, header.count):
                return 0, base
        first, count, _ = seen[-1]
        if header.base_sequence != (first + count) % 2**31:
            return errors.OutOfOrderSequenceNumber.code, None
        return 0, None


class World:
    """What the brokers of one cluster agree on."""

    def __init__(self) -> None:
        self.ids: dict[str, uuid.UUID] = {}
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.brokers: dict[int, ScriptedBroker] = {}
        self.next_producer_id = 1000
        self.tells = False  # whether a broker that does not lead says who does
        self.grown = asyncio.Event()

    def create(self, topic: str, partitions: int = 1, leader: int = 1) -> None:
        self.ids[topic] = uuid.uuid5(uuid.NAMESPACE_DNS, topic)
        for index in range(partitions):
            self.logs[TopicPartition(topic, index)] = PartitionLog()
            self.leaders[TopicPartition(topic, index)] = (leader, 0)

    def lead(self, partition: TopicPartition, node: int) -> None:
        self.leaders[partition] = (node, self.leaders[partition][1] + 1)

    def wake(self) -> None:
        self.grown.set()
        self.grown = asyncio.Event()


Script = Callable[[Any], Awaitable[int | None]]


class ScriptedBroker:
    """`scripts[api]` runs before the request is handled and `after[api]` before its answer leaves: they may
    wait, raise `Drop`, or (before) return an error code to answer with."""

    def __init__(self, world: World, host: VirtualHost, node: int = 1, port: int = 9092) -> None:
        self.world = world
        self.node = node
        self.host = host
        self.port = port
        self.scripts: dict[int, Script] = {}
        self.after: dict[int, Script] = {}
        self.served = dict(SERVED)
        self.asked: list[str] = []
        self.versions: list[tuple[str, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[Any] = set()
        world.brokers[node] = self
        self.start()

    @property
    def address(self) -> str:
        return f"{self.host.name}:{self.port}"

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = self.host.listen(self.host.name, self.port)
        loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for task in list(self._tasks):
            task.cancel()

    def _accept(self) -> None:
        try:
            socket, _ = self._listener.accept()
        except BlockingIOError:
            return
        task = asyncio.get_running_loop().create_task(self._serve(socket), name=f"broker {self.node}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, socket: Any) -> None:
        try:
            while True:
                size = int.from_bytes(await read(socket, 4), "big")
                await self._answer(socket, await read(socket, size))
        except (Drop, ConnectionError):
            pass
        finally:
            socket.close()

    async def _answer(self, socket: Any, data: bytes) -> None:
        header, at = frame.decode_request_header(data)
        request_type = BY_KEY[header.api_key]
        name = request_type.__name__.removesuffix("Request")
        self.asked.append(name)
        low, high = self.served[request_type]
        if not low <= header.api_version <= high:
            assert request_type is api_versions.ApiVersionsRequest, f"{name} {header.api_version}"
            body = self._refused_api_versions()
            await write(socket, frame.encode_response(18, 0, header.correlation_id, body))
            return
        request = request_type.decode(data, header.api_version, at)
        self.versions.append((name, header.api_version))
        code = None
        if header.api_key in self.scripts:
            code = await self.scripts[header.api_key](request)
        handler = getattr(self, "_" + request_type.__module__.rsplit(".", 1)[1])
        answer = await handler(request, header.api_version, code)
        if header.api_key in self.after:
            await self.after[header.api_key](answer)
        if answer is not None:
            body = answer.encode(header.api_version)
            response = frame.encode_response(header.api_key, header.api_version, header.correlation_id, body)
            await write(socket, response)

    def _refused_api_versions(self) -> bytes:
        low, high = self.served[api_versions.ApiVersionsRequest]
        refused = api_versions.ApiVersionsResponse(
            error_code=errors.UnsupportedVersion.code, api_keys=[api_versions.ApiVersion(18, low, high)]
        )
        return refused.encode(0)

    # Handlers

    async def _api_versions(self, request: Any, version: int, code: int | None) -> Any:
        keys = [api_versions.ApiVersion(one.API_KEY, *span) for one, span in self.served.items()]
        return api_versions.ApiVersionsResponse(api_keys=keys)

    async def _metadata(self, request: Any, version: int, code: int | None) -> Any:
        world = self.world
        names = (
            list(world.ids)
            if request.topics is None
            else [one.name for one in request.topics if one.name is not None]
        )
        topics = []
        for name in names:
            if name not in world.ids:
                topics.append(metadata.MetadataResponseTopic(errors.UnknownTopicOrPartition.code, name))
                continue
            parts = [
                metadata.MetadataResponsePartition(
                    0, one.partition, leader, epoch, replica_nodes=[leader], isr_nodes=[leader]
                )
                for one, (leader, epoch) in world.leaders.items()
                if one.topic == name
            ]
            topics.append(
                metadata.MetadataResponseTopic(
                    code or 0, name, world.ids[name], False, parts if not code else []
                )
            )
        brokers = [
            metadata.MetadataResponseBroker(one.node, one.host.name, one.port)
            for one in world.brokers.values()
        ]
        return metadata.MetadataResponse(
            brokers=brokers, cluster_id="scripted", controller_id=min(world.brokers), topics=topics
        )

    async def _init_producer_id(self, request: Any, version: int, code: int | None) -> Any:
        self.world.next_producer_id += 1
        return init_producer_id.InitProducerIdResponse(
            error_code=code or 0, producer_id=self.world.next_producer_id, producer_epoch=0
        )

    async def _produce(self, request: Any, version: int, code: int | None) -> Any:
        names = {one: name for name, one in self.world.ids.items()}
        responses = []
        for topic in request.topic_data:
            name = topic.name or names.get(topic.topic_id)
            parts = []
            for part in topic.partition_data:
                where = TopicPartition(name, part.index)
                problem, base = code or self._led(where), -1
                if not problem:
                    problem, base = self.world.logs[where].append(part.records)
                told = self._told(where, produce.LeaderIdAndEpoch)
                parts.append(produce.PartitionProduceResponse(part.index, problem, base, current_leader=told))
            responses.append(produce.TopicProduceResponse(topic.name or "", topic.topic_id, parts))
        self.world.wake()
        nodes = [produce.NodeEndpoint(*one) for one in self._endpoints()]
        return produce.ProduceResponse(responses, node_endpoints=nodes) if request.acks else None

    def _told(self, where: TopicPartition, kind: Any) -> Any:
        return kind(*self.world.leaders.get(where, ())) if self.world.tells else kind()

    def _endpoints(self) -> list[tuple[int, str, int]]:
        brokers = self.world.brokers.values() if self.world.tells else ()
        return [(one.node, one.host.name, one.port) for one in brokers]

    def _led(self, where: TopicPartition) -> int:
        if where not in self.world.logs:
            return errors.UnknownTopicOrPartition.code
        return 0 if self.world.leaders[where][0] == self.node else errors.NotLeaderOrFollower.code

    async def _list_offsets(self, request: Any, version: int, code: int | None) -> Any:
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                where = TopicPartition(topic.name, part.partition_index)
                problem, offset = code or self._led(where), -1
                if not problem:
                    log = self.world.logs[where]
                    offset = {-1: log.end, -2: log.start}.get(part.timestamp, -1)
                parts.append(
                    list_offsets.ListOffsetsPartitionResponse(part.partition_index, problem, -1, offset)
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(topic.name, parts))
        return list_offsets.ListOffsetsResponse(topics=topics)

    async def _fetch(self, request: Any, version: int, code: int | None) -> Any:
        answer, empty = self._read(request, code)
        if empty and request.max_wait_ms:
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    await self.world.grown.wait()
            except TimeoutError:
                pass
            answer, _ = self._read(request, code)
        return answer

    def _read(self, request: Any, code: int | None) -> tuple[Any, bool]:
        names = {one: name for name, one in self.world.ids.items()}
        topics, empty = [], True
        for topic in request.topics:
            name = topic.topic or names.get(topic.topic_id)
            parts = []
            for part in topic.partitions:
                where = TopicPartition(name, part.partition)
                problem = code or self._led(where)
                data, end = b"", -1
                if not problem:
                    log = self.world.logs[where]
                    end = log.end
                    if not log.start <= part.fetch_offset <= log.end:
                        problem = errors.OffsetOutOfRange.code
                    for one in log.batches:
                        if one.last >= part.fetch_offset and (
                            not data or len(data) + len(one.data) <= part.partition_max_bytes
                        ):
                            data += one.data
                empty = empty and not data and not problem
                told = self._told(where, fetch.LeaderIdAndEpoch)
                parts.append(
                    fetch.PartitionData(part.partition, problem, end, records=data, current_leader=told)
                )
            topics.append(fetch.FetchableTopicResponse(topic.topic, topic.topic_id, parts))
        nodes = [fetch.NodeEndpoint(*one) for one in self._endpoints()]
        return fetch.FetchResponse(responses=topics, node_endpoints=nodes), empty


async def read(socket: Any, size: int) -> bytes:
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        try:
            count = socket.recv_into(view[filled:])
        except BlockingIOError:
            await _ready(socket, "reader")
            continue
        if not count:
            raise ConnectionResetError
        filled += count
    return bytes(buffer)


async def write(socket: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[socket.send(view) :]
        except BlockingIOError:
            await _ready(socket, "writer")


async def _ready(socket: Any, what: str) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    getattr(loop, f"add_{what}")(socket.fileno(), lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        getattr(loop, f"remove_{what}")(socket.fileno())
