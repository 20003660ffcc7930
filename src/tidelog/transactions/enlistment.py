"""AddPartitionsToTxn to the broker that coordinates a transaction, on behalf of a partition that this broker leads."""

from __future__ import annotations

from typing import NamedTuple

from tidelog import errors
from tidelog.replication.peers import Peers
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.types import NodeId, TopicPartition
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

TIMEOUT_MS = 10_000


class RemoteEnlistment(NamedTuple):
    """`add`: adds the partition to the transaction; otherwise verifies that it is part of the transaction."""

    peers: Peers
    coordinator: NodeId
    transactional_id: str
    instance: ProducerIdAndEpoch
    partition: TopicPartition
    add: bool

    async def wait(self) -> None:
        query = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.instance.producer_id,
            producer_epoch=self.instance.epoch,
            verify_only=not self.add,
            topics=[AddPartitionsToTxnTopic(self.partition.topic, [self.partition.partition])],
        )
        request = AddPartitionsToTxnRequest(transactions=[query])
        try:
            answer = await self.peers.ask(
                self.coordinator, request, AddPartitionsToTxnResponse, timeout_ms=TIMEOUT_MS
            )
        except errors.NetworkException as problem:
            raise errors.CoordinatorNotAvailable(
                f"transaction coordinator {self.coordinator} does not answer: {problem}"
            ) from problem
        if answer.error_code != errors.NONE:
            raise errors.by_code(answer.error_code)(
                f"transaction coordinator {self.coordinator} refused the request"
            )
        for result in answer.results_by_transaction:
            for topic in result.topic_results:
                for part in topic.results_by_partition:
                    if part.partition_error_code != errors.NONE:
                        raise errors.by_code(part.partition_error_code)(
                            f"{self.partition} in the transaction of {self.transactional_id!r}, says broker "
                            f"{self.coordinator}"
                        )
