"""The native connection hands a request on when everything before it is answered; only Produces follow Produces."""

from __future__ import annotations

import asyncio

from tests.unit.speed.test_connection import FETCH, LIST_OFFSETS, PRODUCE, connected, frame, receive


async def test_a_request_waits_until_all_before_it_are_answered_but_produces_follow_each_other() -> None:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[bytes]] = []

    def later(number: int, _: bytes) -> asyncio.Future[bytes]:
        futures.append(loop.create_future())
        return futures[-1]

    async def handed_on(count: int) -> None:
        while len(futures) < count:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(futures) == count

    connection, far = await connected(later)
    keys = (PRODUCE, PRODUCE, FETCH, LIST_OFFSETS, PRODUCE, PRODUCE)
    sent = b"".join(frame(number, b"body", key) for number, key in enumerate(keys))
    await loop.sock_sendall(far, sent[:-2])
    await handed_on(2)
    futures[1].set_result(b"1")
    await handed_on(2)
    futures[0].set_result(b"0")
    await handed_on(3)
    futures[2].set_result(b"2")
    await handed_on(4)
    await loop.sock_sendall(far, sent[-2:] + frame(6, b"", FETCH))
    futures[3].set_result(b"3")
    await handed_on(6)
    assert [number for number, _ in connection.seen] == [0, 1, 2, 3, 4, 5]
    assert {body for _, body in connection.seen} == {b"body"}
    futures[5].set_result(b"5")
    futures[4].set_result(b"4")
    await handed_on(7)
    futures[6].set_result(b"6")
    assert await receive(far, 7) == b"0123456"
    connection.close()
