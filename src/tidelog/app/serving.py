"""A process that is a broker: from its settings to its exit code."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.app.advertised import shown
from tidelog.app.environment import system
from tidelog.app.lifecycle import FILES_SPARE, Broker
from tidelog.app.security_warnings import open_to_everybody
from tidelog.config import BrokerConfig
from tidelog.config.embedded_member import own_member
from tidelog.config.first_users import FirstUser
from tidelog.config.metadata_address import EmbeddedAddress
from tidelog.logs import parse_levels, set_up
from tidelog.metadata.access.access_records import CredentialName

if TYPE_CHECKING:
    from tidelog.app.embedded_etcd import EmbeddedEtcd

log = logging.getLogger("tidelog")

CONNECTIONS_WANTED = 10_000

UsersAdded = Callable[[frozenset[CredentialName]], None]


def serve(
    config: BrokerConfig, first_users: Sequence[FirstUser] = (), users_added: UsersAdded = lambda _: None
) -> int:
    """Runs a broker until SIGINT or SIGTERM; the exit code.  `users_added` hears which of `first_users` are new."""
    levels = parse_levels(config.tidelog_log_levels, "tidelog.log.levels")
    set_up(config.tidelog_log_format, levels, config.node_id, config.tidelog_processes != "1")
    _raise_file_limit(
        config.tidelog_open_files_max + CONNECTIONS_WANTED + config.tidelog_http_connections_max + FILES_SPARE
    )
    try:
        asyncio.run(_serve(config, first_users, users_added))
        # All is on disk: an impatient Ctrl-C has nothing to hurry, and Python would tell of it at length.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except errors.TidelogError as problem:
        print(f"tidelog: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename else ""
        print(f"tidelog: {problem.strerror or problem}{where}", file=sys.stderr)
        return 1
    return 0


async def _serve(config: BrokerConfig, first_users: Sequence[FirstUser], users_added: UsersAdded) -> None:
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_requested.set)
    etcd = _embedded_etcd(config)
    if etcd is None:
        await _run_broker(config, first_users, users_added, stop_requested)
        return
    try:
        await etcd.start()
        await etcd.majority(stop_requested)
        if not stop_requested.is_set():
            await _run_broker(config, first_users, users_added, stop_requested)
    finally:
        await etcd.stop()


def _embedded_etcd(config: BrokerConfig) -> EmbeddedEtcd | None:
    """None unless this broker runs a member of etcd."""
    address = config.metadata_address
    if not isinstance(address, EmbeddedAddress):
        return None
    from tidelog.app.embedded_etcd import EmbeddedEtcd

    member = own_member(config, address)
    return None if member is None else EmbeddedEtcd(config, address, member)


async def _run_broker(
    config: BrokerConfig,
    first_users: Sequence[FirstUser],
    users_added: UsersAdded,
    stop_requested: asyncio.Event,
) -> None:
    broker = Broker(config, system(config), first_users)
    addresses = await broker.start()
    users_added(broker.users_added)
    _warn(config, broker)
    kafka, http = addresses.kafka, addresses.http or ("", 0)
    print(
        f"ready kafka={shown(*kafka)} http={shown(*http)} id={config.node_id}",
        flush=True,
    )
    broker.ended.add_done_callback(lambda _: stop_requested.set())
    await stop_requested.wait()
    await broker.stop()
    if broker.ended.done():
        broker.ended.result()


def _warn(config: BrokerConfig, broker: Broker) -> None:
    for is_warning, line in config.without_effect:
        log.log(logging.WARNING if is_warning else logging.INFO, "%s", line)
    exposed = open_to_everybody(config)
    for warning in filter(None, (exposed, broker.powerless())):
        log.warning("%s", warning)
    if exposed is not None:
        # Logs may go where nobody looks at a first start.
        print(f"tidelog: WARNING: {exposed}", file=sys.stderr, flush=True)


def _raise_file_limit(wanted: int) -> None:
    """Shells often start programs with a limit of 1,024 open files, and allow far more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, target), hard))
