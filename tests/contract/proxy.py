"""A TCP proxy before etcd that can swallow the answers: the request arrives, and its sender does not learn the outcome."""

from __future__ import annotations

import asyncio


class Proxy:
    """A proxy at `endpoint` for the address `behind`.  While `swallows` is true, it drops the answers."""

    def __init__(self, behind: str) -> None:
        self._host, _, port = behind.partition(":")
        self._port = int(port)
        self._tasks: set[asyncio.Task[None]] = set()
        self.answers = 0  # pieces of answers that went through
        self.swallows = False
        self.swallowed = asyncio.Event()
        self.endpoint = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        for work in (self._pass(reader, there_writer, False), self._pass(there_reader, writer, True)):
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                if answers and self.swallows:
                    self.swallowed.set()
                    continue
                self.answers += answers
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
