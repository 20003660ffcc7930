"""Large answers over the machine's own sockets."""

from __future__ import annotations

import asyncio
import itertools
import socket

import pytest

from tidelog import errors
from tidelog.net.network import SystemNetwork
from tidelog.net.requester import PIECE_BYTES, Requester
from tidelog.wire import frame
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

VERSION = 12
SIZES = [100, 64 << 10, PIECE_BYTES - 100, PIECE_BYTES, 3 * PIECE_BYTES + 7]


def answer_of(size: int) -> bytes:
    part = PartitionData(partition_index=0, records=bytes([size % 251]) * size)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[part])])
    return answer.encode(VERSION)


async def asked(reader: asyncio.StreamReader) -> int:
    size = int.from_bytes(await reader.readexactly(4), "big")
    header, _ = frame.decode_request_header(await reader.readexactly(size))
    return header.correlation_id


def framed(correlation: int, body: bytes) -> bytes:
    data = correlation.to_bytes(4, "big") + b"\0" + body
    return len(data).to_bytes(4, "big") + data


async def test_large_answers_come_whole_however_they_are_cut_and_are_not_overwritten_by_the_next() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for size in SIZES:
            data = framed(await asked(reader), answer_of(size))
            # A piece that ends just before the end of the answer leaves fewer bytes than any threshold.
            cuts = [0, 10, min(70_000, len(data) - 1), len(data) - 1, len(data)]
            for start, end in itertools.pairwise(cuts):
                writer.write(data[start:end])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    requester = Requester(
        await SystemNetwork().connect("127.0.0.1", port), "peer", "test", request_timeout_ms=30_000
    )
    answers = [await requester.submit(FetchRequest(), FetchResponse, version=VERSION) for _ in SIZES]
    for size, answer in zip(SIZES, answers, strict=True):
        records = answer.responses[0].partitions[0].records
        assert records == bytes([size % 251]) * size
    requester.close()
    server.close()


async def test_an_answer_that_ends_early_breaks_the_connection_and_not_the_wait() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(await asked(reader), answer_of(3 << 20))[: 2 << 20])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    network, port = SystemNetwork(), server.sockets[0].getsockname()[1]
    requester = Requester(await network.connect("127.0.0.1", port), "peer", "t", request_timeout_ms=30_000)
    with pytest.raises(errors.NetworkException, match="closed the connection"):
        await requester.submit(FetchRequest(), FetchResponse, version=VERSION)
    server.close()


async def test_the_socket_waits_for_a_piece_of_a_large_answer_and_for_one_byte_otherwise() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        requester = Requester(ours, "peer", "test", request_timeout_ms=30_000)
        waiting = requester.submit(FetchRequest(), FetchResponse, version=VERSION)
        size = 2 * PIECE_BYTES
        whole = framed(1, answer_of(size))

        def threshold() -> int:
            return ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

        assert threshold() == 1
        theirs.setblocking(False)
        await loop.sock_sendall(theirs, whole[:8])
        while threshold() == 1:
            await asyncio.sleep(0)
        assert threshold() == PIECE_BYTES
        await loop.sock_sendall(theirs, whole[8:])
        await waiting
        assert threshold() == 1
        requester.close()


async def test_after_a_throttled_answer_requests_wait_in_order_and_then_leave() -> None:
    came: list[tuple[float, int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(3):
            correlation = await asked(reader)
            came.append((asyncio.get_running_loop().time(), correlation))  # the throttle begins after this
            answer = FetchResponse(throttle_time_ms=300 if number == 0 else 0)
            writer.write(framed(correlation, answer.encode(VERSION)))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    requester = Requester(
        await SystemNetwork().connect("127.0.0.1", port), "peer", "test", request_timeout_ms=30_000
    )
    await requester.submit(FetchRequest(), FetchResponse, version=VERSION)
    assert requester.throttled == 1
    requester.hold()
    later = [requester.submit(FetchRequest(), FetchResponse, version=VERSION) for _ in range(2)]
    requester.let_go()
    await asyncio.gather(*later)
    assert [correlation for _, correlation in came] == [1, 2, 3]
    assert came[1][0] - came[0][0] >= 0.3
    requester.close()
    server.close()
