"""Encryption at rest of one broker: its keys, and a disk for each log directory that uses them.

While a key is asked for, or is not available, all keys are looked at again soon; otherwise every `encryption.refresh.ms`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tidelog.config import BrokerConfig
from tidelog.storage.disk import Disk
from tidelog.storage.encryption.data_keys import DataKeys
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk, TopicKey
from tidelog.storage.encryption.key_files import KeyFiles
from tidelog.storage.encryption.key_service import KeyService
from tidelog.storage.encryption.vault_transit import VaultTransit

SOON_S = 1.0
_LOOK_S = 0.1


def key_services(config: BrokerConfig, random: Random | None = None) -> dict[str, KeyService]:
    """By the word before the colon in `encryption.key`."""
    services: dict[str, KeyService] = {}
    if config.encryption_file_keys_dir is not None:
        random_bytes = os.urandom if random is None else random.randbytes
        services["file"] = KeyFiles(os.path.abspath(config.encryption_file_keys_dir), random_bytes)
    if config.encryption_vault_url is not None:
        assert config.encryption_vault_token_file is not None, "the settings were checked"
        services["vault"] = VaultTransit(
            config.encryption_vault_url,
            config.encryption_vault_token_file,
            config.encryption_vault_mount,
            config.encryption_vault_ca_file,
        )
    return services


class EncryptionAtRest:
    def __init__(self, config: BrokerConfig, places: Sequence[tuple[Disk, str]], random: Random) -> None:
        services = key_services(config, random)
        self.keys = DataKeys(services, places, random.randbytes)
        self.configured = bool(services)
        self._period_s = config.encryption_refresh_ms / 1000
        self._cache = DecryptedCache(config.encryption_cache_bytes)

    def disk(self, inner: Disk, topic_key: TopicKey) -> EncryptingDisk:
        return EncryptingDisk(inner, self.keys, topic_key, self._cache)

    async def load(self) -> None:
        """What can be had of the keys now."""
        if self.configured:
            await self._in_thread(self.keys.load)
        else:
            self.keys.load()

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            while (waited := loop.time() - begun) < self._period_s and not (
                self.keys.wanting and waited >= SOON_S
            ):
                await asyncio.sleep(min(_LOOK_S, self._period_s))
            await self._in_thread(self.keys.refresh)

    async def _in_thread(self, work: object) -> None:
        """A thread for each call: there are few, and one may hang in the network for seconds."""
        with ThreadPoolExecutor(1, thread_name_prefix="keys") as thread:
            await asyncio.get_running_loop().run_in_executor(thread, work)  # type: ignore[arg-type]
