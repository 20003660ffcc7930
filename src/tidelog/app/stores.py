"""Which metadata store a broker's settings ask for, opened.  etcd's client is loaded only when it is wanted."""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.config.etcd_address import EtcdAddress
from tidelog.metadata.sqlite_store import SqliteStore
from tidelog.metadata.store import MetadataStore

METADATA_FILE = "metadata.sqlite"
LOCK_FILE = ".lock"


async def open_store(config: BrokerConfig, folder: str, clock: Clock, random: Random) -> MetadataStore:
    """`folder`: the first log directory, which belongs to this process as long as the store is open."""
    os.makedirs(folder, exist_ok=True)
    if config.etcd is not None:
        return await _open_etcd(config, config.etcd, folder, clock, random)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
    return await SqliteStore.open(os.path.join(folder, METADATA_FILE), thread, clock)


async def _open_etcd(
    config: BrokerConfig, address: EtcdAddress, folder: str, clock: Clock, random: Random
) -> MetadataStore:
    from tidelog.metadata.etcd_client import EtcdAccess, EtcdClient
    from tidelog.metadata.etcd_store import EtcdStore

    class LockedEtcdStore(EtcdStore):
        """With the lock on the log directory, which SQLite's file is otherwise."""

        async def close(self) -> None:
            with lock:
                await super().close()

    access = EtcdAccess(
        endpoints=address.endpoints,
        ca=_content(config.tidelog_metadata_tls_ca, "ca"),
        cert=_content(config.tidelog_metadata_tls_cert, "cert"),
        key=_content(config.tidelog_metadata_tls_key, "key"),
        user=config.tidelog_metadata_user,
        password=config.tidelog_metadata_password or "",
    )
    with ExitStack() as starting:
        lock = starting.enter_context(_locked(folder))
        store = LockedEtcdStore(EtcdClient(access, clock, random), address.root, str(config.node_id))
        try:
            await store.check_version()
        except BaseException:
            await store.close()
            raise
        starting.pop_all()
    return store


def _locked(folder: str) -> ExitStack:
    """Locked until the stack is closed, or the process is gone."""
    held = ExitStack()
    number = os.open(os.path.join(folder, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    held.callback(os.close, number)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise errors.KafkaStorageError(
            f"another broker is running on {folder}: stop it, or use another data directory"
        ) from None
    return held


def _content(path: str | None, name: str) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise errors.InvalidConfig(
            f"tidelog.metadata.tls.{name}: cannot read {path}: {problem.strerror or problem}"
        ) from None
