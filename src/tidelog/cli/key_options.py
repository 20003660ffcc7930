"""Options that say where the keys of encrypted files are, and a disk that reads these with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from tidelog.cli.session import Failure

if TYPE_CHECKING:
    from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
    from tidelog.storage.encryption.key_service import KeyService


def key_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `services`: by the word before the colon in the name of a key."""

    @click.option(
        "--keys-dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="TIDELOG_KEYS_DIR",
        help="The folder of keys named file:NAME, as encryption.file.keys.dir.",
    )
    @click.option(
        "--vault",
        envvar="VAULT_ADDR",
        metavar="URL",
        help="The Vault or OpenBao server of keys named vault:NAME.",
    )
    @click.option(
        "--vault-token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="TIDELOG_VAULT_TOKEN_FILE",
        help="A file with a token for Vault.",
    )
    @click.option(
        "--vault-mount", default="transit", show_default=True, help="Where its transit engine is mounted."
    )
    @click.option(
        "--vault-ca",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Certificates of its authorities, as PEM.",
    )
    @wraps(command)
    def with_services(
        *args: Any,
        keys_dir: Path | None,
        vault: str | None,
        vault_token_file: Path | None,
        vault_mount: str,
        vault_ca: Path | None,
        **others: Any,
    ) -> Any:
        from tidelog.storage.encryption.key_files import KeyFiles
        from tidelog.storage.encryption.vault_transit import VaultTransit

        services: dict[str, KeyService] = {}
        if keys_dir is not None:
            services["file"] = KeyFiles(str(keys_dir.absolute()))
        if vault is not None and vault_token_file is not None:
            ca = None if vault_ca is None else str(vault_ca)
            services["vault"] = VaultTransit(vault, str(vault_token_file), vault_mount, ca)
        return command(*args, services=services, **others)

    return with_services


def service_of(services: dict[str, KeyService], name: str) -> tuple[KeyService, str]:
    """The service of a key, and the name it has there."""
    from tidelog.errors import InvalidConfig
    from tidelog.storage.encryption.key_service import parse_key

    try:
        kind, short = parse_key(name)
    except InvalidConfig as problem:
        raise Failure(str(problem)) from None
    if kind not in services:
        option = "--keys-dir DIR" if kind == "file" else "--vault URL and --vault-token-file FILE"
        raise Failure(f"{name} needs {option}")
    return services[kind], short


def disk_of_partition(
    services: dict[str, KeyService], folder: Path, read_only: bool = True
) -> EncryptingDisk:
    """For the files of one partition; the keys are in its log directory.  Close it."""
    from tidelog.storage.disk import SystemDisk, SystemFile
    from tidelog.storage.encryption.data_keys import DataKeys
    from tidelog.storage.encryption.decrypted_cache import WINDOW, DecryptedCache
    from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
    from tidelog.storage.encryption.key_service import NONE
    from tidelog.storage.encryption.key_usage import key_of_log

    class ReadingDisk(SystemDisk):
        def open(self, path: str, create: bool = False) -> SystemFile:
            return SystemFile(path, os.O_RDONLY)

    disk, path = ReadingDisk() if read_only else SystemDisk(), str(folder.absolute())
    keys = DataKeys(services, [(disk, os.path.dirname(path))], os.urandom, read_only)
    keys.load()

    def key_of_new_files(topic: str, topic_id: UUID | None) -> str:
        return NONE if read_only else key_of_log(disk, path, keys)

    return EncryptingDisk(disk, keys, key_of_new_files, DecryptedCache(8 * WINDOW))
