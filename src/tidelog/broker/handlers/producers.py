"""InitProducerId (api 22), versions 0-5, and DescribeProducers (api 61), version 0.

A producer without a transactional id gets a fresh id and epoch 0 each time, as one that has lost its state must.
Transactional ids are not served yet: they are refused, not given an id that no coordinator knows."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    try:
        if request.transactional_id is not None:
            if not request.transactional_id:
                raise errors.InvalidRequest("a transactional id cannot be empty")
            raise errors.UnsupportedVersion("transactions are not served by this broker yet")
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise errors.InvalidRequest("a producer id and its epoch come together")
        producer_id = await context.services.producer_ids.next()
    except errors.TidelogError as problem:
        return InitProducerIdResponse(error_code=problem.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


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
                        producer_id=one.id,
                        producer_epoch=one.epoch,
                        last_sequence=one.last_sequence,
                        last_timestamp=one.timestamp,
                        coordinator_epoch=one.coordinator_epoch,
                        current_txn_start_offset=one.transaction_start,
                    )
                    for one in log.producers
                ]
            answered.partitions.append(partition)
        response.topics.append(answered)
    return response
