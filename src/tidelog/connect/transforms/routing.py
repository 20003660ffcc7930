"""Transforms that choose the topic of a record, or drop the record.  Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from tidelog.connect.records import ConnectRecord
from tidelog.connect.transforms.options import Transform, TransformOptions


def regex_router(options: TransformOptions) -> Transform:
    pattern = options.pattern("regex")
    # Java writes $1 where Python writes \g<1>.
    replacement = re.sub(r"\$(\d+)", r"\\g<\1>", options.text("replacement").replace("\\", "\\\\"))

    def transform(record: ConnectRecord) -> ConnectRecord:
        match = pattern.fullmatch(record.topic)
        return record if match is None else replace(record, topic=match.expand(replacement))

    return transform


_JAVA_DATES = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))


def timestamp_router(options: TransformOptions) -> Transform:
    topic_format = options.text("topic.format", "${topic}-${timestamp}")
    date_format = options.text("timestamp.format", "yyyyMMdd")
    for java, own in _JAVA_DATES:
        date_format = date_format.replace(java, own)

    def transform(record: ConnectRecord) -> ConnectRecord:
        if record.timestamp is None:
            raise ValueError("TimestampRouter needs a record with a timestamp")
        when = time.strftime(date_format, time.gmtime(record.timestamp / 1000))
        topic = topic_format.replace("${topic}", record.topic).replace("${timestamp}", when)
        return replace(record, topic=topic)

    return transform


def filter_(options: TransformOptions) -> Transform:
    """With a predicate, otherwise it drops everything."""
    return lambda record: None


MAKERS: dict[str, Callable[[TransformOptions], Transform]] = {
    "Filter": filter_,
    "RegexRouter": regex_router,
    "TimestampRouter": timestamp_router,
}
