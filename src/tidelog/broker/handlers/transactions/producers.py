"""InitProducerId (api 22), versions 0-6, and DescribeProducers (api 61), version 0.

A producer without a transactional id gets a fresh id and epoch 0 each time, as one that has lost its state must.  For
one with, the coordinator of its transactions decides.  Version 6 is served with `transaction.two.phase.commit.enable`
alone; like Kafka 4.3, the broker refuses to keep a prepared transaction for a new producer (keepPreparedTxn)."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FENCED_FROM = 4  # before, clients know only INVALID_PRODUCER_EPOCH


async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    try:
        before = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if (before.producer_id == -1) != (before.epoch == -1):
            raise errors.InvalidRequest("a producer id and its epoch come together")
        if request.transactional_id is not None:
            expected = None if request.producer_id == -1 else before
            instance = await context.services.transactions.initialize(
                request.transactional_id,
                request.transaction_timeout_ms,
                expected,
                request.enable2_pc,
                request.keep_prepared_txn,
            )
        else:
            instance = ProducerIdAndEpoch(await context.services.producer_ids.next(), 0)
    except errors.TidelogError as problem:
        code = problem.code
        if context.version < _FENCED_FROM and isinstance(problem, errors.ProducerFenced):
            code = errors.InvalidProducerEpoch.code
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=instance.producer_id, producer_epoch=instance.epoch)


def describe_producers(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answered = TopicResponse(name=topic.name)
        for index in topic.partition_indexes:
            partition = PartitionResponse(partition_index=index)
            try:
                log = context.services.partitions.led_here(topic.name, index).log
            except errors.TidelogError as problem:
                partition.error_code, partition.error_message = problem.code, str(problem)
            else:
                partition.active_producers = [
                    ProducerState(
                        producer_id=producer.id,
                        producer_epoch=producer.epoch,
                        last_sequence=producer.last_sequence,
                        last_timestamp=producer.timestamp,
                        coordinator_epoch=producer.coordinator_epoch,
                        current_txn_start_offset=producer.transaction_start,
                    )
                    for producer in log.producers
                ]
            answered.partitions.append(partition)
        response.topics.append(answered)
    return response
