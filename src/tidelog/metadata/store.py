"""The interface of every metadata store: keys with revisions, compare-and-swap, watches, leases.

Every successful transaction that changes something makes one new revision.  A store promises: a transaction is
atomic, and durable when `txn` returns; a watch yields every revision once, in order, with all changes of one revision
together; the end of a lease deletes the keys bound to the lease.  Every call but `watch` may raise Unanswered.

One suite in tests/contract tests every implementation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from tidelog import errors

ABSENT = 0


class StoredEntry(NamedTuple):
    """`revision`: the revision of the transaction that last wrote the key."""

    key: str
    value: bytes
    revision: int


class Snapshot(NamedTuple):
    """The entries at `revision`, in the order of their keys."""

    revision: int
    entries: list[StoredEntry]


class Compare(NamedTuple):
    """Holds if the key was last written at `revision`; with ABSENT, if there is no such key."""

    key: str
    revision: int


class Put(NamedTuple):
    """`lease`: the id of the lease whose end deletes the key; 0: no lease, the key stays."""

    key: str
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    key: str


class DeletePrefix(NamedTuple):
    prefix: str


Operation = Put | Delete | DeletePrefix


class KeyChange(NamedTuple):
    """`value` None: the key is gone."""

    key: str
    value: bytes | None


class Changes(NamedTuple):
    """Everything that one transaction (or the end of one lease) changed."""

    revision: int
    changes: tuple[KeyChange, ...]


class Compacted(Exception):
    """The store no longer has the changes that a watch asked for: read a snapshot and watch from its revision."""


class RolledBack(Exception):
    """The store no longer has revisions that it had sent: it was restored from a backup.  The broker must restart and
    compare its logs with the metadata."""


class LeaseEnded(Exception):
    """The lease that a key was to be bound to has ended: take a new lease."""


class Unanswered(errors.RequestTimedOut):
    """The store did not answer in time.  The transaction may have happened, may still happen, or may never happen: read
    the keys before you send it again.  Reads and requests for leases can simply be repeated."""


class TooLarge(errors.PolicyViolation):
    """A transaction has more than `bytes_max` bytes; the store has not applied any of it."""


class Lease(Protocol):
    id: int
    ttl_ms: int

    async def keep_alive(self) -> bool:
        """Renews the lease for `ttl_ms` from now; false if it has already ended."""
        ...

    async def end(self) -> None:
        """Ends the lease at once; no error if it has already ended."""
        ...


class MetadataStore(Protocol):
    operations_max: int
    """The maximum number of comparisons, and of operations, in one transaction."""
    bytes_max: int
    """The maximum number of bytes of keys and values in one transaction; TooLarge beyond."""

    async def get(self, key: str) -> StoredEntry | None: ...

    async def range(self, prefix: str) -> Snapshot: ...

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        """If every comparison holds, applies `then` and returns the revision; otherwise returns None.

        `then` names each key at most once.  LeaseEnded if a put is bound to a lease that has ended.  A transaction
        continues when its caller is cancelled."""
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Yields every change below `prefix` from that revision on, without end; Compacted if the revision is too old.

        The watch waits while the store cannot be reached, and ends when the store is closed."""
        ...

    async def lease(self, ttl_ms: int) -> Lease:
        """A new lease.  The store may make the lease longer than `ttl_ms`: the lease's own `ttl_ms` counts."""
        ...

    async def close(self) -> None: ...


def check_size(compare: Sequence[Compare], then: Sequence[Operation], bytes_max: int) -> None:
    """TooLarge if the transaction is larger than `bytes_max`."""
    size = sum(len(comparison.key) for comparison in compare)
    for operation in then:
        if isinstance(operation, Put):
            size += len(operation.key) + len(operation.value)
        else:
            size += len(operation[0])
    if size > bytes_max:
        raise TooLarge(
            f"A metadata change of {size} bytes is larger than the metadata store accepts ({bytes_max} bytes): "
            "split it into smaller changes."
        )
