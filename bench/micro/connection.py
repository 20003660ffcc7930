from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator

from bench.micro.timing import Case
from tidelog._speed.wire.connection import FrameConnection

ANSWER = (60).to_bytes(4, "big") + bytes(60)
REQUEST = (200).to_bytes(4, "big") + bytes(200)


class _Echo(FrameConnection):
    def frame_arrived(self, frame: memoryview, api_key: int, version: int, correlation_id: int) -> bytes:
        return ANSWER


def cases() -> Iterator[Case]:
    """Both sides' system calls count, and the loop's."""
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = _Echo(loop, ours, bytearray(1 << 16), 1 << 20, 5)
    connection.start()
    many = 100

    def exchange(requests: int) -> None:
        theirs.sendall(REQUEST * requests)
        left = requests * len(ANSWER)
        while left:
            loop.call_soon(loop.stop)
            loop.run_forever()
            while left and select.select([theirs], [], [], 0)[0]:
                left -= len(theirs.recv(1 << 16))

    yield Case("one request and its answer", lambda: exchange(1))
    yield Case(f"{many} requests in one read, and their answers", lambda: exchange(many))
    connection.close()
    theirs.close()
    loop.close()
