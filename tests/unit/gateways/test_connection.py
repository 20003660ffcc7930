"""Connections to the HTTP port that say nothing, too little, or nonsense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.gateways.around import surroundings
from tidelog.gateways.http import connection as connection_module
from tidelog.gateways.http import guard
from tidelog.gateways.http.server import HttpServer

LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOWHERE = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_S = 30


@asynccontextmanager
async def serving(**settings: str) -> AsyncIterator[int]:
    """The port of a server."""
    server = HttpServer()
    port = server.bind("127.0.0.1", 0)
    server.start(surroundings({name.replace("_", "."): value for name, value in settings.items()}))
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield port
    finally:
        await server.stop()


async def said(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def asked(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await said(reader)
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"GET /health/li"])
async def test_a_client_that_does_not_ask_is_let_go(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(connection_module, "HEAD_S_MAX", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        assert await reader.read() == b""
        # Nor does it help to have asked once.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(LIVE)
        assert (await said(reader))[0] == 200
        writer.write(b"GET /")
        assert await reader.read() == b""


async def test_those_that_say_nothing_make_way_for_those_that_ask() -> None:
    async with serving(tidelog_http_connections_max="8") as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        assert (await asked(port, NOWHERE))[0] == 404
        assert await silent[0][0].read() == b"", "the oldest has made way"
        for _, writer in silent:
            writer.close()


async def test_more_than_there_are_places_for_get_an_answer_and_health_is_told_still() -> None:
    async with serving(tidelog_http_connections_max="8") as port:
        busy = []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            # It has a place as long as its body is waited for.
            writer.write(b"POST /consumers/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            busy.append((reader, writer))
        await asyncio.sleep(0.1)
        status, headers, body = await asked(port, NOWHERE)
        assert status == 503 and "tidelog.http.connections.max is 8" in json.loads(body)["message"]
        assert headers["x-request-id"] and headers["retry-after"] and headers["connection"] == "close"
        assert (await asked(port, LIVE))[0] == 200
        for _, writer in busy:
            writer.close()
        while (await asked(port, NOWHERE))[0] != 404:
            await asyncio.sleep(0.01)


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PIECE_S_MAX", 0.1)
    async with serving() as port:
        head = b"POST /consumers/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        status, _, body = await asked(port, head)
        assert status == 408 and json.loads(body)["error_code"] == 408


async def test_what_is_not_http_is_refused_in_json() -> None:
    async with serving() as port:
        for bad in (b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000):
            status, headers, body = await asked(port, bad)
            assert status == 400 and json.loads(body)["error_code"] == 400 and headers["x-request-id"]
