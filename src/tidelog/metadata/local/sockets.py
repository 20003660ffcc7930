"""Unix sockets by path, and frames on them.

The kernel takes at most 107 bytes of a path, and data directories may be deeper: the folder is opened, and the socket is
named through its descriptor in /proc."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from tidelog.metadata.local.messages import LENGTH_BYTES, BadMessage, decode

OWNER_ONLY = 0o600


def listen(path: str) -> socket.socket:
    """A listening socket that only this user can connect to.  A file that is there is replaced: the caller has made
    sure that no other process listens on it."""
    if os.path.lexists(path):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(server.fileno(), OWNER_ONLY)  # before bind: the file is never open to others
        _by_descriptor(path, server.bind)
        server.listen()
    except BaseException:
        server.close()
        raise
    return server


def connect(path: str) -> socket.socket:
    """OSError if nobody listens there."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _by_descriptor(path, client.connect)
        client.setblocking(False)
    except BaseException:
        client.close()
        raise
    return client


def _by_descriptor(path: str, use: Callable[[str], None]) -> None:
    folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


async def read_message(reader: asyncio.StreamReader, bytes_max: int) -> dict[str, Any]:
    """IncompleteReadError or OSError when the connection has ended."""
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if size > bytes_max:
        raise BadMessage(f"A frame of {size} bytes is longer than {bytes_max}.")
    return decode(await reader.readexactly(size))
