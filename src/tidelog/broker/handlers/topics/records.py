"""DeleteRecords (api 21), versions 0-2: moves the start of a log forward, to an offset or to all that is committed."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.broker.services import PARTITIONS_A_TURN, Context
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


async def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answered = DeleteRecordsTopicResult(name=topic.name)
        for number, requested in enumerate(topic.partitions, 1):
            if number % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            result = DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=-1)
            try:
                partition = context.services.partitions.led_here(topic.name, requested.partition_index)
                result.low_watermark = partition.delete_records(requested.offset)
            except errors.TidelogError as problem:
                result.error_code = problem.code
            answered.partitions.append(result)
        response.topics.append(answered)
    return response
