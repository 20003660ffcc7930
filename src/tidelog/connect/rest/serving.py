"""A process that is a worker: its port, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from tidelog.connect.plugins import Plugins
from tidelog.connect.rest.api import ConnectApi
from tidelog.connect.state.store import GroupStore, WorkerGroup
from tidelog.connect.task_log import TaskLogs
from tidelog.connect.worker import ConnectWorker
from tidelog.net.network import listen

CONNECTIONS_MAX = 200
GRACE_S = 1


async def serve(
    options: WorkerGroup,
    plugins: Plugins,
    host: str,
    port: int,
    advertised: str | None,
    ready: Callable[[str], object],
) -> None:
    """Until SIGINT or SIGTERM.  `ready` gets the address of the REST API."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    listening = listen(host, port)
    address = f"{host}:{listening.getsockname()[1]}"
    store, logs = GroupStore(options), TaskLogs()
    try:
        await store.start()
        worker = ConnectWorker(store, plugins, advertised or address, logs)
        server = _server(worker)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await worker.start()
        ready(address)
        worker.ended.add_done_callback(lambda _: stop.set())
        await stop.wait()
        await worker.stop()
        server.should_exit = True
        await serving
        if worker.ended.done():
            worker.ended.result()
    finally:
        logs.close()
        listening.close()
        await store.close()


def _server(worker: ConnectWorker) -> Any:
    config = uvicorn.Config(
        ConnectApi(worker).application(),
        log_config=None,
        access_log=False,
        log_level="warning",
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    return server


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield
