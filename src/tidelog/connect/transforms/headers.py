"""Transforms of headers.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidelog.connect.records import ConnectRecord
from tidelog.connect.transforms.options import Transform, TransformOptions


def insert_header(options: TransformOptions) -> Transform:
    header = (options.text("header"), options.text("value.literal").encode())
    return lambda record: replace(record, headers=(*record.headers, header))


def drop_headers(options: TransformOptions) -> Transform:
    names = set(options.words("headers"))
    return lambda record: replace(
        record, headers=tuple(header for header in record.headers if header[0] not in names)
    )


MAKERS: dict[str, Callable[[TransformOptions], Transform]] = {
    "DropHeaders": drop_headers,
    "InsertHeader": insert_header,
}


def with_header(record: ConnectRecord, name: str, value: str) -> ConnectRecord:
    return replace(record, headers=(*record.headers, (name, value.encode())))
