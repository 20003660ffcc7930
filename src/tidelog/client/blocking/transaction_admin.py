"""The blocking admin client's part for transactions: each method runs the asyncio one on the clients' thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelog.client.admin.transaction_admin import ActiveProducer, TransactionDescription, TransactionListing
from tidelog.client.blocking.admin_part import AdminPart
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.types import TopicPartition


class BlockingTransactionAdmin(AdminPart):
    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Transactions that match all filters, sorted by transactional id; `pattern` is a regular expression for the
        whole id.

        hanging = admin.list_transactions(longer_than_ms=3_600_000)
        """
        return self._run(
            self._core.list_transactions(
                states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """The state, producer and partitions of each transaction.

        billing = admin.describe_transactions(["billing-1"])["billing-1"]
        """
        return self._run(self._core.describe_transactions(ids))

    def describe_producers(self, partition: TopicPartition) -> list[ActiveProducer]:
        """The producers that have written to the partition lately, and their open transactions.

        producers = admin.describe_producers(TopicPartition("orders", 0))
        """
        return self._run(self._core.describe_producers(partition))

    def fence_producer(self, transactional_id: str) -> None:
        """Fences the producer that has this transactional id now, and aborts its open transaction.

        admin.fence_producer("billing-1")
        """
        self._run(self._core.fence_producer(transactional_id))

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commits or aborts a transaction that `Producer.prepare_transaction` has left open; the call may be
        repeated.

        admin.end_transaction(prepared, commit=True)
        """
        self._run(self._core.end_transaction(prepared, commit=commit))

    def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        """Ends a transaction that hangs in a partition because no coordinator knows of it any more.

        admin.abort_transaction(TopicPartition("orders", 0), start_offset=42)
        """
        self._run(self._core.abort_transaction(partition, start_offset))
