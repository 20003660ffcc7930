"""What good clients notice of one that is hostile: from the moment a record is due to its arrival at a consumer, at rest and
beside each attack of `tests/faults/hostile_clients.py`, which another process makes against the same broker.

The good client is on the listener without TLS, so that the figures are of the broker alone."""

from __future__ import annotations

from bench.admin import Admin
from bench.paced import Paced
from bench.results import Row, Samples, Scenario, percentile
from bench.scale import Scale
from bench.systems import System
from bench.workload import warm_up
from tests.conformance.raw import Connection
from tests.conformance.secured import SecuredBroker
from tests.faults.hostile_clients import ADDRESS, ATTACKS, FLOOD, Target, under
from tidelog import Admin as TidelogAdmin
from tidelog.wire.client_quotas import QuotaEntity

RATE = 500
SLICES = 3
TOPICS_A_REQUEST = 1_000
FLOOD_BYTES_A_SECOND = 1_000_000.0


def run(system: System, scale: Scale) -> Samples:
    if system.name != "tidelog":
        return {}
    with system.broker() as made:
        broker = SecuredBroker(made.home / "secured", {"log.segment.delete.delay.ms": "1000"})
        broker.start()
        try:
            return _measured(broker, scale)
        finally:
            broker.discard()


def _measured(broker: SecuredBroker, scale: Scale) -> Samples:
    warm_up(broker, scale)
    _make_topics(broker, scale.hostile_topics)
    with TidelogAdmin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas(
            {QuotaEntity(client_id=FLOOD): {"producer_byte_rate": FLOOD_BYTES_A_SECOND}}
        )
    with Admin(broker.port) as admin:
        topic = admin.create_topic("paced", 1)
        admin.create_topic(FLOOD, 1)
        paced = Paced(broker.port, topic, admin.producer())
    samples: Samples = {}
    try:
        paced.run(RATE, max(2, scale.latency_seconds // 3))
        samples["hostile-rest"] = _p99(paced, scale)
        memory = broker.resident_bytes()
        for name, attack in ATTACKS.items():
            with under(attack, Target(*[broker.ports[listener] for listener in ("PLAIN", "LOGIN", "BOTH")])):
                paced.run(RATE, 2)
                samples[f"hostile-{name}"] = _p99(paced, scale)
            samples[f"hostile-{name}-memory"] = [max(0, broker.resident_bytes() - memory) / (1 << 20)]
            paced.run(RATE, 2)
    finally:
        paced.close()
    assert ADDRESS in broker.log_text()
    return samples


def _make_topics(broker: SecuredBroker, count: int) -> None:
    with Connection(broker.bootstrap) as connection:
        connection.socket.settimeout(600)
        for start in range(0, count, TOPICS_A_REQUEST):
            topics = [
                {"name": f"many-{number}", "num_partitions": 1, "replication_factor": 1}
                for number in range(start, min(start + TOPICS_A_REQUEST, count))
            ]
            answer = connection.call("create_topics", 7, topics=topics, timeout=500_000)
            assert {topic.error_code.name for topic in answer.topics} == {"none"}


def _p99(paced: Paced, scale: Scale) -> list[float]:
    return [percentile(paced.run(RATE, scale.latency_seconds / SLICES).consumed, 99) for _ in range(SLICES)]


def _rows() -> list[Row]:
    rows = [Row("hostile-rest", f"end to end at {RATE}/s: p99 at rest", "ms")]
    for name in ATTACKS:
        rows.append(Row(f"hostile-{name}", f"  beside {name.replace('_', ' ')}", "ms"))
        rows.append(Row(f"hostile-{name}-memory", "    memory more than at rest", "MiB"))
    return rows


SCENARIO = Scenario("hostile", tuple(_rows()), run)
