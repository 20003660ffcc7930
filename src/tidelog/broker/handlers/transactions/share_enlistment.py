"""How the share coordinator makes its partition part of a transaction that an acknowledgement joins."""

from __future__ import annotations

from tidelog.broker.services import Services
from tidelog.groups.share.group_state import TransactionMember
from tidelog.groups.share.state_coordinator import Enlist
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.types import TopicPartition


def enlists(services: Services) -> Enlist:
    async def enlist(transaction: TransactionMember, partition: TopicPartition) -> None:
        from tidelog.broker.handlers.produce.in_transaction import enlist_until_settled

        instance = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        await enlist_until_settled(services, transaction.transactional_id, instance, partition, adds=True)

    return enlist
