"""Lines from a file descriptor, as they come, without blocking the event loop.

A daemon thread reads: it works alike for pipes, terminals and files, and one that waits for input does not
keep the process from ending.  At most a few chunks are read ahead.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD = 4


class LineTooLong(Exception):
    pass


class Lines:
    """Iterates over lists of lines, each without its newline; the last line needs none."""

    def __init__(self, descriptor: int, line_bytes_max: int) -> None:
        self._descriptor = descriptor
        self._line_bytes_max = line_bytes_max
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        self._closed = False
        threading.Thread(target=self._read, name="input", daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._room.release()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        rest = b""
        while True:
            chunk = await self._chunks.get()
            self._room.release()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                if rest:
                    yield [rest]
                return
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > self._line_bytes_max:
                raise LineTooLong
            if lines:
                yield lines

    def _read(self) -> None:
        while not self._closed:
            self._room.acquire()
            try:
                chunk: bytes | OSError = os.read(self._descriptor, CHUNK_BYTES)
            except OSError as problem:
                chunk = problem
            if self._closed:
                return
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                return  # The loop has ended: nobody is left to read for.
            if not chunk or isinstance(chunk, OSError):
                return
