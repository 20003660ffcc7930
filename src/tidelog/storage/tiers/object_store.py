"""The seam to the object store: whole objects and ranges by name, put, list and delete.

`open_object_store` takes a URL (a folder, S3, GCS or Azure) and reads credentials from the environment of the process, as
the tools of each vendor do.  Nothing here blocks the loop: requests run on threads of obstore.  Every request ends in
bounded time, with its result or with a `StoreProblem`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from tidelog.errors import InvalidConfig
from tidelog.extras import need

REQUEST_S_MAX = 30
_RETRY_S_MAX = 10
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 2
MARKER = ".tidelog-store"
"""A file in a store that is a folder: without it the folder is another one, as when its disk is not mounted any more."""
_SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure")


class StoreProblem(Exception):
    """A request to the object store failed: the store is away, slow, or refuses."""


class NoSuchObject(StoreProblem):
    """There is no object of this name."""


class ObjectExists(StoreProblem):
    """An object of this name is there already."""


class StoredObject(NamedTuple):
    name: str
    size: int


class ObjectStore(Protocol):
    async def get(self, name: str) -> bytes: ...
    async def get_range(self, name: str, start: int, end: int) -> bytes: ...
    async def size(self, name: str) -> int: ...
    async def create(self, name: str, data: bytes) -> None:
        """ObjectExists if there is one: of several that create one name, one succeeds."""
        ...

    async def put(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """The object is there when all of it is, and not before."""
        ...

    async def list(self, prefix: str) -> list[StoredObject]:
        """All whose name begins with the folder `prefix`."""
        ...

    async def remove_unfinished(self, prefix: str) -> None:
        """What a put that did not end has left in a folder, and no listing shows; a bucket has a rule for it."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """No error for those that are not there."""
        ...


def check_url(url: str, setting: str) -> None:
    """InvalidConfig if it cannot be the URL of an object store."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise InvalidConfig(
            f"{setting} cannot be {url!r}: give a URL as file:///folder, s3://bucket/prefix, gs://bucket/prefix or "
            "az://container/prefix"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise InvalidConfig(f"{setting} cannot be {url!r}: a folder is given as file:///folder")
    if parts.scheme != "file" and not parts.netloc:
        raise InvalidConfig(f"{setting} cannot be {url!r}: it names no bucket")
    for name, _ in parse_qsl(parts.query):
        if any(word in name.lower() for word in ("secret", "key", "token", "password")):
            raise InvalidConfig(
                f"{setting} must not carry {name}: credentials come from the environment, as AWS_ACCESS_KEY_ID"
            )


def open_object_store(url: str, setting: str) -> ObjectStore:
    """`url` may end in options of the store, as ?endpoint=http://127.0.0.1:9000&region=eu-1."""
    check_url(url, setting)
    need("obstore", "Tiers in an object store")
    from obstore.exceptions import BaseError
    from obstore.store import LocalStore, from_url

    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            folder_store = LocalStore(parts.path, mkdir=True)
            with open(f"{parts.path}/{MARKER}", "ab"):
                pass
            return ObstoreStore(folder_store, parts.path)
        options: dict[str, Any] = dict(parse_qsl(parts.query))
        client: dict[str, Any] = {"timeout": timedelta(seconds=REQUEST_S_MAX)}
        if options.get("endpoint", "").startswith("http://"):
            client["allow_http"] = True
        retries: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=_RETRY_S_MAX)}
        bare = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        return ObstoreStore(
            from_url(bare, client_options=client, retry_config=retries, **options)  # type: ignore[call-overload]
        )
    except (BaseError, ValueError, OSError) as problem:
        raise InvalidConfig(f"{setting} cannot be {url!r}: {_words(problem)}") from None


class ObstoreStore:
    def __init__(self, store: Any, folder: str | None = None) -> None:
        """`folder`: of a store that is one."""
        self._store = store
        self._folder = folder

    async def get(self, name: str) -> bytes:
        import obstore

        async def read() -> bytes:
            return bytes(await (await obstore.get_async(self._store, name)).bytes_async())

        data: bytes = await self._bounded(read(), f"read {name}")
        return data

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        import obstore

        request = obstore.get_range_async(self._store, name, start=start, end=end)
        return bytes(await self._bounded(request, f"read {name}"))

    async def size(self, name: str) -> int:
        import obstore

        meta = await self._bounded(obstore.head_async(self._store, name), f"look at {name}")
        return int(meta["size"])

    async def create(self, name: str, data: bytes) -> None:
        import obstore

        await self._bounded(obstore.put_async(self._store, name, data, mode="create"), f"create {name}")

    async def put(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        import obstore

        # As long as it makes progress: each part has the time of a request.
        request = obstore.put_async(
            self._store, name, pieces, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
        )
        await self._bounded(request, f"write {name}", seconds=None)

    async def list(self, prefix: str) -> list[StoredObject]:
        import obstore

        async def read() -> list[StoredObject]:
            return [
                StoredObject(each["path"], each["size"])
                async for batch in obstore.list(self._store, prefix=prefix)
                for each in batch
            ]

        listed: list[StoredObject] = await self._bounded(read(), f"list {prefix}")
        return listed

    async def remove_unfinished(self, prefix: str) -> None:
        if self._folder is not None:
            await asyncio.to_thread(_remove_staged, f"{self._folder}/{prefix}")

    async def delete(self, names: Sequence[str]) -> None:
        import obstore

        for name in names:
            try:
                await self._bounded(obstore.delete_async(self._store, name), f"delete {name}")
            except NoSuchObject:
                pass

    async def _bounded(self, request: Any, doing: str, seconds: float | None = 2.0 * REQUEST_S_MAX) -> Any:
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            async with asyncio.timeout(seconds):
                if self._folder is not None:
                    await asyncio.to_thread(os.stat, f"{self._folder}/{MARKER}")
                return await request
        except FileNotFoundError as problem:
            if problem.filename is not None:
                _give_up(request)
                raise StoreProblem(
                    f"cannot {doing}: {self._folder} is not there, or is another folder"
                ) from None
            raise NoSuchObject(f"cannot {doing}: it is not in the object store") from None
        except AlreadyExistsError:
            raise ObjectExists(f"cannot {doing}: it is there already") from None
        except TimeoutError:
            raise StoreProblem(f"cannot {doing}: the object store did not answer in time") from None
        except (BaseError, OSError, ValueError) as problem:
            raise StoreProblem(f"cannot {doing}: {_words(problem)}") from problem


def _give_up(request: Any) -> None:
    if asyncio.iscoroutine(request):
        request.close()
    elif isinstance(request, asyncio.Future):
        request.cancel()


def _remove_staged(folder: str) -> None:
    """A put into a folder writes to NAME#NUMBER first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.rpartition("#")[2].isdigit() and "#" in name:
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass


def _words(problem: BaseException) -> str:
    """Without what obstore adds for its developers."""
    return str(problem).partition("\n\nDebug source")[0].strip()
