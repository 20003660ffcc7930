"""The process of `tidelog metadata serve`: a SQLite store, and the Unix socket on which brokers of this machine use it."""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tidelog import errors
from tidelog.app.stores import METADATA_FILE
from tidelog.clock import SystemClock
from tidelog.metadata.local.server import LocalServer
from tidelog.metadata.sqlite.store import SqliteStore

SOCKET_FILE = "metadata.sock"
BROKERS_END_S_MAX = 30.0


def serve_metadata(folder: Path) -> int:
    """Runs until SIGINT or SIGTERM, or after SIGHUP until no broker is connected; the exit code."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(_serve(folder.resolve()))
    except errors.TidelogError as problem:
        print(f"tidelog: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename else ""
        print(f"tidelog: {problem.strerror or problem}{where}", file=sys.stderr)
        return 1
    return 0


async def _serve(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    waits_for_brokers = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, waits_for_brokers.set)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
    # SQLite's lock keeps a second process away from the folder, and so from the socket.
    store = await SqliteStore.open(str(folder / METADATA_FILE), thread, SystemClock())
    try:
        server = LocalServer(store, str(folder / SOCKET_FILE))
        await server.start()
        print(f"ready metadata=unix:{folder / SOCKET_FILE}", flush=True)
        ending = asyncio.create_task(_unused(server, waits_for_brokers, stopping))
        await stopping.wait()
        ending.cancel()
        await server.close()
    finally:
        await store.close()
        thread.shutdown()


async def _unused(server: LocalServer, waits_for_brokers: asyncio.Event, stopping: asyncio.Event) -> None:
    """Brokers that end write so into the store."""
    await waits_for_brokers.wait()
    try:
        async with asyncio.timeout(BROKERS_END_S_MAX):
            await server.unused()
    except TimeoutError:
        pass
    stopping.set()
