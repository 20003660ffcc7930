"""The native connection over real socket pairs: frames cut anywhere, answers in order, back pressure, bounds."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tidelog._speed.wire.connection import FrameConnection
from tidelog._speed.wire.poller import Poller
from tidelog._speed.wire.queued_bytes import QueuedBytes

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2


def frame(correlation_id: int, body: bytes = b"", api_key: int = PRODUCE) -> bytes:
    payload = struct.pack(">hhi", api_key, 1, correlation_id) + body
    return struct.pack(">i", len(payload)) + payload


class Answering(FrameConnection):
    """Answers with what `answer` gives for (correlation id, body)."""

    def __init__(
        self,
        watcher: Any,
        sock: Any,
        answer: Callable[[int, bytes], Any],
        queued: QueuedBytes | None = None,
        **bounds: int,
    ) -> None:
        scratch = bytearray(bounds.get("scratch", 4096))
        super().__init__(
            watcher,
            sock,
            scratch,
            bounds.get("frame_bytes_max", 1 << 20),
            bounds.get("in_flight_max", 8),
            queued=queued,
        )
        self.answer = answer
        self.seen: list[tuple[int, bytes]] = []
        self.problems: list[BaseException] = []
        self.closings = 0

    def frame_arrived(self, frame: memoryview, api_key: int, version: int, correlation_id: int) -> Any:
        assert version == 1
        self.seen.append((correlation_id, bytes(frame[8:])))
        return self.answer(correlation_id, bytes(frame[8:]))

    def refused(self, problem: BaseException) -> None:
        self.problems.append(problem)

    def connection_closed(self) -> None:
        self.closings += 1


WATCHER = "loop"


@pytest.fixture(autouse=True, params=["loop", "poller"])
def watcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs on the loop itself, and on the poller that servers use."""
    monkeypatch.setattr(sys.modules[__name__], "WATCHER", request.param)


class Piece:
    """A slice that gives itself out in small bites."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def send(self, sock: socket.socket, done: int) -> int:
        return sock.send(self.data[done : done + 3])


async def connected(
    answer: Callable[[int, bytes], Any], queued: QueuedBytes | None = None, **bounds: int
) -> tuple[Answering, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    loop = asyncio.get_running_loop()
    connection = Answering(Poller(loop) if WATCHER == "poller" else loop, near, answer, queued, **bounds)
    connection.start()
    return connection, far


async def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, size - len(data)), 10)
    return data


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 11, 64, 4096])
async def test_frames_cut_anywhere_arrive_whole(step: int) -> None:
    connection, far = await connected(lambda number, body: b"%d;" % number)
    bodies = [bytes([number]) * (number * 7) for number in range(12)]
    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    loop = asyncio.get_running_loop()
    for at in range(0, len(stream), step):
        await loop.sock_sendall(far, stream[at : at + step])
        await asyncio.sleep(0)
    expected = b"".join(b"%d;" % number for number in range(12))
    assert await receive(far, len(expected)) == expected
    assert connection.seen == list(enumerate(bodies))
    connection.close()


async def test_a_frame_larger_than_the_scratch_buffer_and_its_first_piece_arrives_whole() -> None:
    connection, far = await connected(lambda number, body: b"ok", frame_bytes_max=8 << 20)
    body = bytes(range(256)) * (3 << 12)  # 3 MiB
    sending = asyncio.ensure_future(
        asyncio.get_running_loop().sock_sendall(far, frame(1, body) + frame(2, b"next"))
    )
    assert await receive(far, 4) == b"okok"
    await sending
    assert connection.seen == [(1, body), (2, b"next")]
    connection.close()


async def test_answers_leave_in_the_order_of_their_requests() -> None:
    loop = asyncio.get_running_loop()
    futures = {number: loop.create_future() for number in (0, 2)}
    connection, far = await connected(
        lambda number, _: futures[number] if number in futures else b"%d;" % number
    )
    await loop.sock_sendall(far, b"".join(frame(number) for number in range(4)))
    while len(connection.seen) < 4:
        await asyncio.sleep(0)
    futures[2].set_result([b"2", Piece(b"abcdefgh"), b";"])
    await asyncio.sleep(0.01)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    futures[0].set_result(b"0;")
    expected = b"0;1;2abcdefgh;3;"
    assert await receive(far, len(expected)) == expected
    connection.close()


async def test_no_answer_leaves_no_gap() -> None:
    connection, far = await connected(lambda number, _: None if number % 2 else b"%d;" % number)
    await asyncio.get_running_loop().sock_sendall(far, b"".join(frame(number) for number in range(5)))
    assert await receive(far, 6) == b"0;2;4;"
    connection.close()


async def test_requests_pipelined_past_the_bound_on_unsent_answers_are_all_answered() -> None:
    """The answers of the first ones leave within the same turn, so nothing else would wake the connection."""
    connection, far = await connected(lambda number, _: b"%03d;" % number, scratch=1 << 16)
    await asyncio.get_running_loop().sock_sendall(far, b"".join(frame(number) for number in range(500)))
    expected = b"".join(b"%03d;" % number for number in range(500))
    assert await receive(far, len(expected)) == expected
    connection.close()


async def test_reading_pauses_at_the_bound_and_goes_on_when_answers_leave() -> None:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[bytes]] = []

    def later(number: int, _: bytes) -> asyncio.Future[bytes]:
        futures.append(loop.create_future())
        return futures[-1]

    connection, far = await connected(later, in_flight_max=3)
    await loop.sock_sendall(far, b"".join(frame(number) for number in range(10)))
    await asyncio.sleep(0.01)
    assert len(futures) == 3
    for number in range(10):
        while len(futures) <= number:
            await asyncio.sleep(0)
        assert connection.in_flight <= 3
        futures[number].set_result(b"%d;" % number)
    assert await receive(far, 20) == b"".join(b"%d;" % number for number in range(10))
    connection.close()


async def test_a_client_that_does_not_read_stops_being_read() -> None:
    connection, far = await connected(lambda number, _: bytes(100_000))
    stream = b"".join(frame(number) for number in range(400))
    sending = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(far, stream))
    await asyncio.sleep(0.05)
    assert len(connection.seen) < 400
    total = 400 * 100_000
    got = 0
    while got < total:
        got += len(await asyncio.get_running_loop().sock_recv(far, 1 << 20))
    await sending
    assert len(connection.seen) == 400
    connection.close()


@pytest.mark.parametrize("length", [-1, 0, 7, (1 << 20) + 1, -(2**31), 2**31 - 1])
async def test_an_impossible_length_closes_the_connection_with_one_word(length: int) -> None:
    connection, far = await connected(lambda number, _: b"")
    await asyncio.get_running_loop().sock_sendall(far, struct.pack(">i", length) + bytes(20))
    assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(far, 1), 10) == b""
    assert connection.is_closed
    assert (len(connection.problems), connection.closings) == (1, 1)


async def test_a_handler_that_raises_closes_its_connection_after_the_answers_before_it() -> None:
    def answer(number: int, _: bytes) -> bytes:
        if number == 1:
            raise ValueError("no")
        return b"%d;" % number

    connection, far = await connected(answer)
    await asyncio.get_running_loop().sock_sendall(far, frame(0) + frame(1) + frame(2))
    assert await receive(far, 2) == b"0;"
    assert await asyncio.get_running_loop().sock_recv(far, 1) == b""
    assert [number for number, _ in connection.seen] == [0, 1]
    assert [str(problem) for problem in connection.problems] == ["no"]


async def test_closing_cancels_what_is_under_way() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()
    connection, far = await connected(lambda number, _: future)
    await loop.sock_sendall(far, frame(0))
    while not connection.seen:
        await asyncio.sleep(0)
    far.close()
    while not connection.is_closed:
        await asyncio.sleep(0)
    assert future.cancelled()
    assert (connection.closings, connection.problems) == (1, [])


async def test_draining_answers_what_is_under_way_and_takes_nothing_new() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()
    connection, far = await connected(lambda number, _: future if number == 0 else b"no")
    await loop.sock_sendall(far, frame(0))
    while not connection.seen:
        await asyncio.sleep(0)
    connection.drain()
    await loop.sock_sendall(far, frame(1))
    await asyncio.sleep(0.01)
    assert (connection.in_flight, len(connection.seen)) == (1, 1)
    future.set_result(b"0;")
    assert await receive(far, 2) == b"0;"
    await asyncio.sleep(0.01)
    assert (connection.in_flight, len(connection.seen)) == (0, 1)
    connection.close()


async def test_an_answer_that_is_held_gives_way_to_the_next_request() -> None:
    loop = asyncio.get_running_loop()
    held: list[asyncio.Future[None]] = []
    refused: list[int] = []

    def answer(number: int, body: bytes) -> asyncio.Future[bytes]:
        at = connection.frames
        return asyncio.ensure_future(wait(number, at))

    async def wait(number: int, at: int) -> bytes:
        released: asyncio.Future[None] = loop.create_future()
        if connection.hold(at, released):
            held.append(released)
            await released
        else:
            refused.append(number)
        return bytes([number])

    connection, client = await connected(answer)
    client.send(frame(1, api_key=LIST_OFFSETS))
    await asyncio.sleep(0.05)
    assert [one.done() for one in held] == [False]
    client.send(frame(2, api_key=LIST_OFFSETS))
    assert await receive(client, 1) == b"\x01"
    await asyncio.sleep(0.01)
    assert [one.done() for one in held] == [True, False]
    # Behind two that arrive together nobody is held, nor is the first of them.
    client.send(frame(3, api_key=LIST_OFFSETS) + frame(4, api_key=LIST_OFFSETS))
    assert await receive(client, 2) == b"\x02\x03"
    assert refused == [3]
    connection.drain()
    assert await receive(client, 1) == b"\x04"
    connection.close()
    client.close()


async def test_nothing_is_held_where_one_request_is_worked_on_at_a_time() -> None:
    def answer(number: int, body: bytes) -> asyncio.Future[bytes]:
        return asyncio.ensure_future(wait(connection.frames))

    async def wait(at: int) -> bytes:
        return b"%d" % connection.hold(at, asyncio.get_running_loop().create_future())

    connection, client = await connected(answer, in_flight_max=1)
    client.send(frame(1))
    assert await receive(client, 1) == b"0"
    connection.close()
    client.close()


async def test_a_paused_connection_hands_on_nothing_before_it_goes_on() -> None:
    def answer(number: int, _: bytes) -> bytes:
        if number == 1:
            connection.pause()
        return b"%d;" % number

    connection, far = await connected(answer)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(far, frame(0) + frame(1) + frame(2) + frame(3)[:5])
    assert await receive(far, 4) == b"0;1;"
    await loop.sock_sendall(far, frame(3)[5:])
    for _ in range(5):
        await asyncio.sleep(0)
    assert [number for number, _ in connection.seen] == [0, 1]
    connection.resume()
    assert await receive(far, 4) == b"2;3;"
    connection.close()


async def crowd(queued: QueuedBytes, count: int, answer: Callable[[int, bytes], Any]) -> list[Any]:
    """Connections that share one bound."""
    return [await connected(answer, queued) for _ in range(count)]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def test_connections_in_the_middle_of_a_frame_wait_while_memory_is_short_and_all_get_through() -> None:
    size, count = 900_000, 6
    queued = QueuedBytes(100_000)
    pairs = await crowd(queued, count, lambda number, body: b"%d:%d;" % (number, len(body)))
    loop = asyncio.get_running_loop()
    whole = [frame(number, bytes(size)) for number in range(count)]
    for (_, far), data in zip(pairs, whole, strict=True):
        await loop.sock_sendall(far, data[:1_000])
    await turns()
    sending = [
        asyncio.ensure_future(loop.sock_sendall(far, data[1_000:]))
        for (_, far), data in zip(pairs, whole, strict=True)
    ]
    for number, (_, far) in enumerate(pairs):
        expected = b"%d:%d;" % (number, size)
        assert await receive(far, len(expected)) == expected
    await asyncio.gather(*sending)
    assert queued.waits > 0 and queued.used == 0 and queued.waiting_count == 0
    for connection, _ in pairs:
        connection.close()


async def test_a_frame_that_alone_is_larger_than_the_bound_gets_through_and_small_ones_do_not_wait() -> None:
    queued = QueuedBytes(1_000)
    (_, large), (other, second), (_, small) = await crowd(
        queued, 3, lambda number, body: b"%d:%d;" % (number, len(body))
    )
    loop = asyncio.get_running_loop()
    data = frame(1, bytes(50_000))
    await loop.sock_sendall(large, data[:30_000])
    await turns()
    assert queued.used > queued.most
    await loop.sock_sendall(second, frame(2, bytes(50_000))[:9_000])
    await turns()
    await loop.sock_sendall(second, frame(2, bytes(50_000))[9_000:20_000])
    await turns()
    assert queued.waiting_count == 1 and other.bytes_in <= 16_384
    await loop.sock_sendall(small, frame(3, b"x"))
    assert await receive(small, 4) == b"3:1;"
    await loop.sock_sendall(large, data[30_000:])
    assert await receive(large, 8) == b"1:50000;"
    await loop.sock_sendall(second, frame(2, bytes(50_000))[20_000:])
    assert await receive(second, 8) == b"2:50000;"
    assert queued.used == 0


async def test_a_connection_that_stops_in_the_middle_of_a_frame_is_closed_when_others_need_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog._speed.wire.queued_bytes.PATIENCE_S", 0.05)
    queued = QueuedBytes(1_000)
    (silent, first), (_, second) = await crowd(queued, 2, lambda number, body: b"%d;" % number)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(first, frame(1, bytes(50_000))[:20_000])
    await turns()
    await loop.sock_sendall(second, frame(2, bytes(50_000)))
    assert await receive(second, 2) == b"2;"
    assert silent.is_closed and isinstance(silent.problems[0], TimeoutError)
    assert queued.used == 0


async def test_copies_that_are_kept_count_and_their_end_lets_others_go_on() -> None:
    queued = QueuedBytes(10_000)
    queued.take(10_000)
    (_, first), (waiting, second) = await crowd(queued, 2, lambda number, body: b"%d;" % number)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(first, frame(1, bytes(50_000))[:20_000])
    await turns()
    await loop.sock_sendall(second, frame(2, bytes(50_000)))
    await turns()
    assert queued.waiting_count == 1 and not waiting.seen
    queued.give_back(10_000)
    await loop.sock_sendall(first, frame(1, bytes(50_000))[20_000:])
    assert await receive(second, 2) == b"2;"
    assert await receive(first, 2) == b"1;"
