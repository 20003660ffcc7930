"""One record written and read by kafka-python or aiokafka with Kerberos: `kerberos_worker.py LIBRARY HOST:PORT TOPIC TEXT`.

A program of its own, since both need the package gssapi, which Debian has for its own Python.  The tickets are those that
the environment names."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

SECONDS = 60
BOOTSTRAP_MS = 15_000


def with_kafka_python(bootstrap: str, topic: str, text: bytes) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    producer = KafkaProducer(**settings, bootstrap_timeout_ms=BOOTSTRAP_MS)
    producer.send(topic, text).get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1000, **settings
    )
    while not any(record.value == text for record in consumer):
        pass
    consumer.close()


async def with_aiokafka(bootstrap: str, topic: str, text: bytes) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }
    producer = AIOKafkaProducer(**settings)
    await producer.start()
    await producer.send_and_wait(topic, text)
    await producer.stop()
    consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    await consumer.start()
    while (await asyncio.wait_for(consumer.getone(), SECONDS)).value != text:
        pass
    await consumer.stop()


if __name__ == "__main__":
    library, bootstrap, topic, text = sys.argv[1:]
    if library == "kafka":
        with_kafka_python(bootstrap, topic, text.encode())
    else:
        asyncio.run(with_aiokafka(bootstrap, topic, text.encode()))
    print(f"read {text}")
