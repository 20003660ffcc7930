"""Changes of who may do what: ACLs, SCRAM credentials, client quotas, delegation tokens.  `Controller.access` is this.

Each call returns when this broker has applied the change; other brokers follow within the time a watch takes.  Large
requests go in pieces that are good one by one: an ACL, a credential and the quotas of an entity are each whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from tidelog.metadata import access_records as records
from tidelog.metadata.access_records import CredentialName, TokenRecord
from tidelog.metadata.image import Image
from tidelog.metadata.records import encode_usage, tenant_key, tenant_usage_key
from tidelog.metadata.store import ABSENT, Compare, Delete, Operation, Put
from tidelog.metadata.tenants import ENABLED, check_change
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import AclBinding
from tidelog.wire.client_quotas import QuotaEntity

T = TypeVar("T")


class Swap(NamedTuple):
    """What must still hold, and what to do then."""

    compare: list[Compare]
    then: list[Operation]


Attempt = Callable[[Image], tuple[Any, Swap]]
ChangeToken = Callable[[TokenRecord | None], TokenRecord | None]
"""From a token (None: there is none) to what it becomes (None: it ends); may raise."""


class AccessController:
    def __init__(
        self, swap: Callable[[Attempt, bool], Awaitable[Any]], operations_max: int, random: Random
    ) -> None:
        """`swap` decides on the newest image, and again when another broker was faster."""
        self._swap = swap
        self._operations_max = operations_max
        self._random = random

    # ACLs

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """An ACL that is there already stays as it is."""
        for some in _batches(dict.fromkeys(bindings), self._operations_max):

            def attempt(image: Image, some: Sequence[AclBinding] = some) -> tuple[None, Swap]:
                new = [one for one in some if records.acl_id(one) not in image.acls]
                # No comparison: the key is made of the content, and whoever writes it writes the same.
                return None, Swap([], [Put(records.acl_key(one), records.encode_acl(one)) for one in new])

            await self._swap(attempt, False)

    async def delete_acls(self, bindings: Iterable[AclBinding]) -> None:
        for some in _batches(dict.fromkeys(bindings), self._operations_max):

            def attempt(image: Image, some: Sequence[AclBinding] = some) -> tuple[None, Swap]:
                return None, Swap([], [Delete(records.acl_key(one)) for one in some])

            await self._swap(attempt, False)

    # Users

    async def alter_credentials(
        self, put: Mapping[CredentialName, ScramCredential], delete: Iterable[CredentialName] = ()
    ) -> None:
        operations: list[Operation] = [Delete(records.credential_key(name)) for name in delete]
        for name, credential in put.items():
            operations.append(Put(records.credential_key(name), records.encode_credential(credential)))
        secret = self._new_secret()
        for some in _batches(operations, self._operations_max - 1):

            def attempt(image: Image, some: Sequence[Operation] = some) -> tuple[None, Swap]:
                if image.secret:
                    return None, Swap([], list(some))
                first = Put(records.SECRET, secret.hex().encode())
                return None, Swap([Compare(records.SECRET, ABSENT)], [first, *some])

            await self._swap(attempt, False)

    async def add_credentials(
        self, credentials: Mapping[CredentialName, ScramCredential]
    ) -> frozenset[CredentialName]:
        """Only those of users who have none for the mechanism; returns which were added.  Few: one transaction."""
        secret = self._new_secret()

        def attempt(image: Image) -> tuple[frozenset[CredentialName], Swap]:
            new = [name for name in credentials if name.user not in image.users(name.mechanism)]
            compare = [Compare(records.credential_key(name), ABSENT) for name in new]
            then: list[Operation] = [
                Put(records.credential_key(name), records.encode_credential(credentials[name]))
                for name in new
            ]
            if new and not image.secret:
                compare.append(Compare(records.SECRET, ABSENT))
                then.append(Put(records.SECRET, secret.hex().encode()))
            return frozenset(new), Swap(compare, then)

        added: frozenset[CredentialName] = await self._swap(attempt, False)
        return added

    async def ensure_secret(self) -> None:
        """The cluster has a secret afterwards; one that is there stays."""
        secret = self._new_secret()

        def attempt(image: Image) -> tuple[None, Swap]:
            if image.secret:
                return None, Swap([], [])
            put = Put(records.SECRET, secret.hex().encode())
            return None, Swap([Compare(records.SECRET, ABSENT)], [put])

        await self._swap(attempt, False)

    def _new_secret(self) -> bytes:
        return self._random.getrandbits(8 * records.SECRET_BYTES).to_bytes(records.SECRET_BYTES, "big")

    # Quotas

    async def alter_quotas(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], validate_only: bool = False
    ) -> None:
        """None takes a quota away; a tenant ends with its `enabled`."""

        def attempt(image: Image) -> tuple[None, Swap]:
            stored = image.quotas.get(entity)
            before = {} if stored is None else stored.values
            after = {**before, **changes}
            kept = {name: value for name, value in after.items() if value is not None}
            if kept == before:
                return None, Swap([], [])
            swap = Swap([], [])
            if entity.tenant is not None:
                kept = kept if ENABLED in kept or stored is None else {}
                check_change(image, entity.tenant, None if stored is None else before, kept)
                if not kept:
                    # No topic of the tenant is created meanwhile.
                    creations = tenant_key(entity.tenant)
                    revision = image.tenant_creations.get(entity.tenant, ABSENT)
                    swap.compare.append(Compare(creations, revision))
                    swap.then.append(Delete(creations))
            key = records.quota_key(entity)
            swap.compare.append(Compare(key, ABSENT if stored is None else stored.revision))
            swap.then.append(Put(key, records.encode_quotas(kept)) if kept else Delete(key))
            return None, swap

        await self._swap(attempt, validate_only)

    # Usage of tenants

    async def report_usage(self, node: NodeId, stored_bytes: Mapping[str, int]) -> None:
        """What the logs of a broker hold of each tenant, for the other brokers."""

        def attempt(image: Image) -> tuple[None, Swap]:
            if image.tenant_usage.get(node, {}) == stored_bytes:
                return None, Swap([], [])
            key = tenant_usage_key(node)
            return None, Swap([], [Put(key, encode_usage(stored_bytes)) if stored_bytes else Delete(key)])

        await self._swap(attempt, False)

    # Delegation tokens

    async def change_token(self, token_id: str, change: ChangeToken) -> TokenRecord | None:
        """Makes, changes or ends a token; returns what it is now."""

        def attempt(image: Image) -> tuple[TokenRecord | None, Swap]:
            stored = image.tokens.get(token_id)
            before = None if stored is None else stored.record
            after = change(before)
            if after == before:
                return after, Swap([], [])
            key = records.token_key(token_id)
            then = Delete(key) if after is None else Put(key, after.encode())
            return after, Swap([Compare(key, ABSENT if stored is None else stored.revision)], [then])

        changed: TokenRecord | None = await self._swap(attempt, False)
        return changed

    async def drop_expired_tokens(self, now_ms: int) -> list[str]:
        """The ids of those that are gone; at most as many as one transaction takes."""

        def attempt(image: Image) -> tuple[list[str], Swap]:
            over = (
                (token_id, stored.revision)
                for token_id, stored in image.tokens.items()
                if min(stored.record.expires_ms, stored.record.max_ms) < now_ms
            )
            some = list(islice(over, self._operations_max))
            # A token that is renewed at this moment stays.
            compare = [Compare(records.token_key(token_id), revision) for token_id, revision in some]
            return [token_id for token_id, _ in some], Swap(compare, [Delete(one.key) for one in compare])

        gone: list[str] = await self._swap(attempt, False)
        return gone


def _batches(items: Iterable[T], size: int) -> Iterable[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
