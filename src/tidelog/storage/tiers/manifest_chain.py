"""The manifests of one partition in the object store: read the newest, write the next.

Two brokers that both think they lead cannot both write the next one.  The newest few are kept, so that a writer that
was asleep does not find a number free that was used before it: it looks for newer ones when it has written."""

from __future__ import annotations

from tidelog.storage.tiers.manifest import Manifest, decode, manifest_name, manifest_number
from tidelog.storage.tiers.object_store import NoSuchObject, ObjectExists, ObjectStore, StoreProblem

KEPT = 3
_LISTINGS_MAX = 5


class Outrun(Exception):
    """Somebody else has written a newer manifest."""


class ManifestChain:
    def __init__(self, store: ObjectStore, folder: str) -> None:
        self.store = store
        self.folder = folder

    async def newest(self) -> Manifest | None:
        """None when nothing was ever copied.  A listing that is behind is made up for: numbers have no gaps."""
        for _ in range(_LISTINGS_MAX):
            number = max(await self._numbers(), default=0)
            newest = None
            while True:
                try:
                    following = decode(await self.store.get(manifest_name(self.folder, max(number, 1))))
                except NoSuchObject:
                    break
                newest, number = following, following.number + 1
            # A manifest that is gone between the listing and the read was replaced by newer ones.
            if newest is not None or number == 0:
                return newest
        raise StoreProblem(f"cannot find the newest manifest of {self.folder}: the listing is behind")

    async def write(self, manifest: Manifest) -> None:
        try:
            await self.store.create(manifest_name(self.folder, manifest.number), manifest.encode())
        except ObjectExists:
            raise Outrun from None
        numbers = await self._numbers()
        if max(numbers, default=0) > manifest.number:
            raise Outrun
        old = [number for number in numbers if number <= manifest.number - KEPT]
        await self.store.delete([manifest_name(self.folder, number) for number in sorted(old)])

    async def _numbers(self) -> list[int]:
        listed = [manifest_number(each.name) for each in await self.store.list(f"{self.folder}/manifests/")]
        return [number for number in listed if number is not None]
