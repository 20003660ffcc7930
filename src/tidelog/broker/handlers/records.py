"""DeleteRecords (api 21), versions 0-2: moves the start of a log forward, to an offset or to all that is committed."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answered = DeleteRecordsTopicResult(name=topic.name)
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            try:
                partition = context.services.partitions.led_here(topic.name, asked.partition_index)
                result.low_watermark = partition.delete_records(asked.offset)
            except errors.TidelogError as problem:
                result.error_code = problem.code
            answered.partitions.append(result)
        response.topics.append(answered)
    return response
