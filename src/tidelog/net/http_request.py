"""Sends one HTTP request to another broker and reads the answer.  Each request has its own connection, because such requests
are rare and short."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple

ANSWER_BYTES_MAX = 64 << 20
HEAD_BYTES_MAX = 1 << 16
PIECE_BYTES = 1 << 16
TIMEOUT_S = 30.0


class NotSent(Exception):
    """The broker cannot be reached: it has not received the request."""


class NoAnswer(Exception):
    """The broker did not answer: it may have received the request, and may have executed it."""


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes


async def send(
    address: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    size_max: int = ANSWER_BYTES_MAX,
    tls: ssl.SSLContext | None = None,
) -> HttpAnswer:
    """Sends a request.  `path`: raw, with its query; `address`: host:port."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                reader, writer = await asyncio.open_connection(
                    host.strip("[]"), int(port), limit=HEAD_BYTES_MAX, ssl=tls
                )
            except OSError as problem:
                raise NotSent(f"{address}: {problem.strerror or problem}") from None
            try:
                lines = [f"{method} {path} HTTP/1.1", f"Host: {address}", "Connection: close"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                lines += [f"Content-Length: {len(body)}", "", ""]
                writer.write("\r\n".join(lines).encode("latin-1") + body)
                await writer.drain()
                return await _read(reader, size_max)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as problem:
                raise NoAnswer(f"{address} did not answer in full: {problem!r}") from None
            finally:
                writer.close()
    except TimeoutError:
        raise NoAnswer(f"{address} did not answer within {TIMEOUT_S:.0f} s") from None


async def _read(reader: asyncio.StreamReader, size_max: int) -> HttpAnswer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ", 2)[1])
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    if status == 204 or status == 304:
        return HttpAnswer(status, headers, b"")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return HttpAnswer(status, headers, await _chunks(reader, size_max))
    length = headers.get("content-length")
    if length is None:
        return HttpAnswer(status, headers, await _until_the_end(reader, size_max))
    if int(length) > size_max:
        raise ValueError(f"an answer of {length} bytes")
    return HttpAnswer(status, headers, await reader.readexactly(int(length)))


async def _until_the_end(reader: asyncio.StreamReader, size_max: int) -> bytes:
    """An answer without a length ends with its connection."""
    out = bytearray()
    while piece := await reader.read(PIECE_BYTES):
        out += piece
        if len(out) > size_max:
            raise ValueError("the answer is too long")
    return bytes(out)


async def _chunks(reader: asyncio.StreamReader, size_max: int) -> bytes:
    out = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if len(out) + size > size_max:
            raise ValueError("the answer is too long")
        if size == 0:
            return bytes(out)
        out += await reader.readexactly(size)
        await reader.readexactly(2)
