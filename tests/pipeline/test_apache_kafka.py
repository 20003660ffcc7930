"""Source and exactly-once sink on Apache Kafka, behind TLS and a login, where its jars are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_tidelog_security import SecureKafka, kafka
from tests.conformance.topics import create_topic
from tests.pipeline.frames import failure, fill, finish
from tidelog import Admin

__all__ = ["kafka"]
pytestmark = [pytest.mark.timeout(1500), pytest.mark.kafka]


def secured(kafka: SecureKafka, password: str = "secret") -> dict[str, str]:
    return {
        "bootstrap": kafka.at("BOTH"),
        "security.tls": "true",
        "security.ca": str(kafka.home / "ca.pem"),
        "security.mechanism": "SCRAM-SHA-512",
        "security.username": "me",
        "security.password": password,
        "timeoutMs": "60000",
    }


def values(spark: Any, kafka: SecureKafka, topic: str) -> list[str]:
    rows = spark.read.format("tidelog").options(**secured(kafka), topics=topic).load()
    return sorted((bytes(row.value).decode() for row in rows.collect()), key=int)


def test_a_stream_is_copied_once_through_tls_and_a_login(
    spark: Any, kafka: SecureKafka, tmp_path: Path
) -> None:
    for topic in ("orders", "orders-copy"):
        create_topic(kafka.bootstrap, topic, 2, None)
    for life in range(2):
        fill(kafka.bootstrap, "orders", [str(number) for number in range(life * 50, life * 50 + 50)])
        read = spark.readStream.format("tidelog").options(**secured(kafka), topics="orders")
        rows = read.option("starting", "earliest").option("maxRecordsPerTrigger", 30).load()
        writer = rows.select("key", "value").writeStream.format("tidelog").options(**secured(kafka))
        finish(writer.option("topic", "orders-copy").option("checkpointLocation", str(tmp_path / "c")))
    assert values(spark, kafka, "orders-copy") == [str(number) for number in range(100)]
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        assert not admin.list_transactions(states=["Ongoing"]), "a transaction was left open"
        assert "__tidelog_sink_decisions" in {topic.name for topic in admin.list_topics()}


def test_who_may_not_come_in_is_told_so(spark: Any, kafka: SecureKafka) -> None:
    wrong = spark.read.format("tidelog").options(**secured(kafka, "guess"), topics="orders")
    message = failure(spark, lambda: wrong.load().count())
    assert "SCRAM" in message or "credentials" in message or "authenticat" in message.lower()
    stranger = {**secured(kafka), "security.ca": str(kafka.home / "other-ca.pem"), "timeoutMs": "2000"}
    message = failure(
        spark, lambda: spark.read.format("tidelog").options(**stranger, topics="orders").load().count()
    )
    assert "certificate" in message.lower()
