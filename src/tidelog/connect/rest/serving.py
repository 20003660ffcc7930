"""A process that is a worker: its port, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from tidelog.connect.plugins import Plugins
from tidelog.connect.rest.api import ConnectApi
from tidelog.connect.rest.authentication import WorkerUsers
from tidelog.connect.state.store import GroupStore, WorkerGroup
from tidelog.connect.task_log import TaskLogs
from tidelog.connect.worker import ConnectWorker
from tidelog.errors import InvalidConfig
from tidelog.net.network import listen

CONNECTIONS_MAX = 200
GRACE_S = 1


async def serve(
    options: WorkerGroup,
    plugins: Plugins,
    host: str,
    port: int,
    advertised: str | None,
    logs_in: bool,
    certificate: Path | None,
    ready: Callable[[str], object],
) -> None:
    """Until SIGINT or SIGTERM.  `logs_in`: users of the REST API log in as users of the brokers; `certificate` is a PEM file
    with its key.  `ready` gets the address of the REST API."""
    tls = None if certificate is None else _server_context(certificate)
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
        users = WorkerUsers(options) if logs_in else None
        others = None if certificate is None else _client_context(certificate, options)
        server = _server(ConnectApi(worker, users, others), tls)
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


def _server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate)
    except ssl.SSLError:
        raise InvalidConfig(f"{certificate} is no PEM file with a certificate and its key") from None
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise InvalidConfig(f"{certificate} cannot be read: {reason}") from None
    return context


def _client_context(certificate: Path, options: WorkerGroup) -> ssl.SSLContext:
    """The other workers are checked by the authority of the brokers, or by one in the file of the certificate."""
    ca = None if options.security is None else options.security.ca
    context = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
    context.load_verify_locations(certificate)
    return context


def _server(api: ConnectApi, tls: ssl.SSLContext | None) -> Any:
    config = uvicorn.Config(
        api.application(),
        log_config=None,
        access_log=False,
        log_level="warning",
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    config.ssl = tls  # uvicorn makes contexts from files only
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    return server


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield
