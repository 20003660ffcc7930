"""The seam behind which the cluster's metadata lives: keys with revisions, compare-and-swap, watches, leases.

Every successful transaction that changes something makes one new revision.  What is promised: a transaction is
atomic and durable when it returns; a watch yields every revision once, in order, with all changes of one together;
keys bound to a lease are deleted when it ends.  Every call but `watch` may raise Unanswered.

One suite in tests/contract holds every implementation to this."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from tidelog import errors

ABSENT = 0


class Entry(NamedTuple):
    """`revision` is that of the transaction that last wrote the key."""

    key: str
    value: bytes
    revision: int


class Snapshot(NamedTuple):
    """Entries in the order of their keys, as they were at `revision`."""

    revision: int
    entries: list[Entry]


class Compare(NamedTuple):
    """The key was last written at `revision`; ABSENT: there is no such key."""

    key: str
    revision: int


class Put(NamedTuple):
    """`lease`: the id of the lease whose end deletes the key; 0 keeps it for good."""

    key: str
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    key: str


class DeletePrefix(NamedTuple):
    prefix: str


Operation = Put | Delete | DeletePrefix


class Change(NamedTuple):
    """`value` None: the key is gone."""

    key: str
    value: bytes | None


class Changes(NamedTuple):
    """All that one transaction (or the end of one lease) changed."""

    revision: int
    changes: tuple[Change, ...]


class Compacted(Exception):
    """The store no longer has the changes a watch asked for: read a snapshot and watch from there."""


class RolledBack(Exception):
    """The store does not have what it had told before: it was restored from a backup.  A broker has to start again, and
    compare its logs with the metadata."""


class LeaseEnded(Exception):
    """The lease a key was to be bound to is over: take a new one."""


class Unanswered(errors.RequestTimedOut):
    """The store gave no answer in time.  What was asked may have happened, may happen yet, or never: look before
    you ask again.  Reads and leases can simply be asked for again."""


class TooLarge(errors.PolicyViolation):
    """A transaction of more than `bytes_max` bytes; nothing of it has happened."""


class Lease(Protocol):
    id: int
    ttl_ms: int

    async def keep_alive(self) -> bool:
        """Counts `ttl_ms` from now on again; false when the lease has ended already."""
        ...

    async def end(self) -> None:
        """At once; no error when it has ended already."""
        ...


class MetadataStore(Protocol):
    operations_max: int
    """Most comparisons, and most operations, in one transaction."""
    bytes_max: int
    """Most bytes of keys and values in one transaction; TooLarge beyond."""

    async def get(self, key: str) -> Entry | None: ...

    async def range(self, prefix: str) -> Snapshot: ...

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        """If all of `compare` hold, does `then` and returns the revision; None if one does not.

        `then` names each key at most once.  LeaseEnded when a put is bound to a lease that is over.  A transaction
        goes on when its author is cancelled."""
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Every change below `prefix` from that revision on, for ever; Compacted when it is too old.

        It waits while the store is away; it ends when the store is closed."""
        ...

    async def lease(self, ttl_ms: int) -> Lease:
        """The store may make it longer: `ttl_ms` of the lease is what holds."""
        ...

    async def close(self) -> None: ...


def check_size(compare: Sequence[Compare], then: Sequence[Operation], bytes_max: int) -> None:
    """TooLarge for a transaction that a store with `bytes_max` does not take."""
    size = sum(len(one.key) for one in compare)
    for operation in then:
        if isinstance(operation, Put):
            size += len(operation.key) + len(operation.value)
        else:
            size += len(operation[0])
    if size > bytes_max:
        raise TooLarge(
            f"a change of {size} bytes is more than the metadata store takes ({bytes_max}): make smaller ones"
        )
