"""Opens the metadata store that a broker's settings name.  etcd's client is loaded only if it is needed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.config.metadata_address import EmbeddedAddress, EtcdAddress, SocketAddress
from tidelog.extras import need
from tidelog.metadata.sqlite.store import SqliteStore
from tidelog.metadata.store import MetadataStore

METADATA_FILE = "metadata.sqlite"


async def open_store(config: BrokerConfig, folder: str, clock: Clock, random: Random) -> MetadataStore:
    """Opens the store.  `folder`: the first log directory, which has SQLite's file."""
    address = config.metadata_address
    if isinstance(address, EmbeddedAddress):
        return await _open_etcd(config, address.etcd, clock, random)
    if isinstance(address, EtcdAddress):
        return await _open_etcd(config, address, clock, random)
    if isinstance(address, SocketAddress):
        return await _open_local(address)
    os.makedirs(folder, exist_ok=True)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
    return await SqliteStore.open(os.path.join(folder, METADATA_FILE), thread, clock)


async def _open_etcd(
    config: BrokerConfig, address: EtcdAddress, clock: Clock, random: Random
) -> MetadataStore:
    need("grpc", "Clusters, whose metadata is in etcd,")
    from tidelog.metadata.etcd.client import EtcdAccess, EtcdClient
    from tidelog.metadata.etcd.store import EtcdStore

    access = EtcdAccess(
        endpoints=address.endpoints,
        ca=_content(config.tidelog_metadata_tls_ca, "ca"),
        cert=_content(config.tidelog_metadata_tls_cert, "cert"),
        key=_content(config.tidelog_metadata_tls_key, "key"),
        user=config.tidelog_metadata_user,
        password=config.tidelog_metadata_password or "",
    )
    store = EtcdStore(EtcdClient(access, clock, random), address.root, str(config.node_id))
    try:
        await store.check_version()
    except BaseException:
        await store.close()
        raise
    return store


async def _open_local(address: SocketAddress) -> MetadataStore:
    from tidelog.metadata.local.store import LocalStore

    store = LocalStore(address.path)
    try:
        await store.check()
    except BaseException:
        await store.close()
        raise
    return store


def _content(path: str | None, name: str) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise errors.InvalidConfig(
            f"Setting tidelog.metadata.tls.{name}: cannot read {path}: {problem.strerror or problem}"
        ) from None
