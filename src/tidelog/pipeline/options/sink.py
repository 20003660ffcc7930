"""The options of `format("tidelog")` as a sink.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.pipeline.options import connection
from tidelog.pipeline.options.connection import ConnectionSettings, connection_of
from tidelog.pipeline.options.source import FORMATS, ValueOptions
from tidelog.pipeline.options.text import OptionText, PipelineError

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# By default brokers allow up to 15 minutes (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 600_000
DECISION_TOPIC = "__tidelog_sink_decisions"
ONLY_IN_TRANSACTIONS = ("transactionTimeoutMs", "sinkId", "decisionTopic")
ENCODING = ("schema", "message", "registry", "subject")
KNOWN = (
    *connection.KNOWN,
    "topic",
    "guarantee",
    "compression",
    "format",
    *ENCODING,
    *ONLY_IN_TRANSACTIONS,
)
ALIASES = {**connection.ALIASES, "kafka.compression.type": "compression"}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`topic` takes precedence over a column of that name; `sink_id` tells the sinks of one query apart."""

    connection: ConnectionSettings
    topic: str | None
    exactly_once: bool
    compression: str
    transaction_timeout_ms: int
    sink_id: str
    decision_topic: str
    encoding: ValueOptions | None
    """None: the column `value` is written as it is."""


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    options = OptionText(given, KNOWN, ALIASES, "sink")
    # A batch write may take longer than any transaction may.
    usual = EXACTLY_ONCE if streaming else AT_LEAST_ONCE
    guarantee = options.choice("guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), usual)
    if guarantee == AT_LEAST_ONCE:
        for name in ONLY_IN_TRANSACTIONS:
            if name in options:
                raise PipelineError(f"option {name!r} needs option 'guarantee': {EXACTLY_ONCE}")
    topic = options.text("topic")
    if topic is not None:
        _check_name("topic", topic)
    sink_id = options.text("sinkId") or topic or "sink"
    _check_name("sinkId", sink_id)
    return SinkOptions(
        connection=connection_of(options),
        topic=topic,
        exactly_once=guarantee == EXACTLY_ONCE,
        compression=options.choice("compression", COMPRESSIONS, "none"),
        transaction_timeout_ms=options.count("transactionTimeoutMs", TRANSACTION_TIMEOUT_MS),
        sink_id=sink_id,
        decision_topic=options.text("decisionTopic") or DECISION_TOPIC,
        encoding=_encoding(options),
    )


def _check_name(option: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name):
        raise PipelineError(
            f"option {option!r} cannot be {name!r}: use letters, digits, dots, dashes and underscores"
        )


def _encoding(options: OptionText) -> ValueOptions | None:
    form = options.choice("format", FORMATS, "bytes")
    if form == "bytes":
        for name in ENCODING:
            if name in options:
                raise PipelineError(f"option {name!r} needs option 'format': json, avro or protobuf")
        return None
    schema, message, registry, subject = (options.text(name) for name in ENCODING)
    return ValueOptions(form, schema, message, registry, subject, "failfast")
