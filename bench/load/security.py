"""What security costs the broker: CPU for each GB through TLS beside plain text, ACLs and quotas on the plain path, log-ins.

librdkafka is the client of both systems; the cipher is the one that it offers, so that both use the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka

from bench.results import Goal, Row, Samples, Scenario
from bench.scale import GB, Scale
from bench.systems import MeasuredKafka, System
from bench.workload import CpuMeter
from tests.conformance.certificates import make_certificates
from tests.conformance.process import BrokerProcess, free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin as TidelogAdmin
from tidelog import Security
from tidelog.aio import Admin
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.client_quotas import DEFAULT_ENTITY, QuotaEntity

CIPHER = "ECDHE-RSA-AES256-GCM-SHA384"
RECORD_BYTES = 1_000
FLUSH_S_MAX = 600
LOGINS = 100
AT_ONCE = 10
PASSWORD = "of-the-bench"
PROTOCOLS = {"PLAIN": "PLAINTEXT", "TLS": "SSL", "SCRAM": "SASL_PLAINTEXT"}


class _SecuredKafka(MeasuredKafka):
    """With the listeners of `_settings` beside its own."""

    def _write_properties(self) -> None:
        super()._write_properties()
        lines = dict(_settings(self.home, self.ports))
        lines["listeners"] += f",CONTROLLER://127.0.0.1:{self._controller_port}"
        lines["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        lines["advertised.listeners"] = _listeners(self.ports)
        with (self.home / "server.properties").open("a") as properties:
            properties.write("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def ports(self) -> dict[str, int]:
        return {"PLAIN": self.port, "TLS": self.port + 1, "SCRAM": self.port + 2}


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _settings(home: Path, ports: Mapping[str, int]) -> dict[str, str]:
    make_certificates(home)
    return {
        "listeners": _listeners(ports),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in PROTOCOLS.items()),
        "inter.broker.listener.name": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "broker.pem"),
        "ssl.enabled.protocols": "TLSv1.2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
        'required username="x" password="x";',
    }


class _SecuredTidelog(TidelogBroker):
    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        command = command[:at] + command[at + 2 :]  # the settings have the listeners
        return [*command, "--add-scram", f"SCRAM-SHA-256=[name=admin,password={PASSWORD}]"]


@contextmanager
def _running(system: System, settings: dict[str, str]) -> Iterator[tuple[BrokerProcess, dict[str, int]]]:
    """A broker with a listener of each protocol, and their ports."""
    with system.broker() as made:
        home = made.home / "secured"
        home.mkdir(parents=True)
        given = {**made.settings, "auto.create.topics.enable": "true", **settings}
        if system.name == "kafka":
            kafka = _SecuredKafka(home, given)
            broker: BrokerProcess = kafka
        else:
            ports = {name: free_port() for name in PROTOCOLS}
            broker = _SecuredTidelog(home, {**given, **_settings(home, ports)})
            broker.port = ports["PLAIN"]
        broker.start()
        try:
            yield broker, kafka.ports if system.name == "kafka" else ports
            broker.stop()
        finally:
            broker.discard()


def run(system: System, scale: Scale) -> Samples:
    samples: Samples = {}
    with _running(system, {}) as (broker, ports):
        home = broker.home
        for name in ("PLAIN", "TLS"):
            options = _options(ports[name], home if name == "TLS" else None)
            key = f"security-{name.lower()}"
            samples[f"{key}-produce"], samples[f"{key}-consume"] = _moved(broker, options, name, scale)
        samples["security-logins"] = _logins(broker, ports)
    if system.name == "tidelog":
        with _running(system, {"authorizer.class.name": "tidelog", "super.users": "User:admin"}) as secured:
            broker, ports = secured
            _restrict(ports)
            options = _options(ports["PLAIN"], None)
            samples["security-acls-produce"], samples["security-acls-consume"] = _moved(
                broker, options, "PLAIN", scale
            )
    return samples


def _options(port: int, home: Path | None) -> dict[str, Any]:
    options: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
    if home is not None:
        options |= {"security.protocol": "SSL", "ssl.ca.location": str(home / "ca.pem")}
        options["ssl.cipher.suites"] = CIPHER
    return options


def _moved(
    broker: BrokerProcess, options: dict[str, Any], name: str, scale: Scale
) -> tuple[list[float], list[float]]:
    """CPU seconds of the broker for each GB produced, and consumed; the first round of each does not count."""
    produced: list[float] = []
    consumed: list[float] = []
    for number in range(scale.rounds + 1):
        topic = f"{name.lower()}-{number}"
        meter = CpuMeter(broker)
        _produce(options, topic, scale.round_bytes)
        produced.append(meter.read() / (scale.round_bytes / GB))
        _consume(options, topic, scale.round_bytes)
        consumed.append(meter.read() / (scale.round_bytes / GB))
    return produced[1:], consumed[1:]


def _produce(options: dict[str, Any], topic: str, size: int) -> None:
    producer = confluent_kafka.Producer(
        {
            **options,
            "batch.size": 65_536,
            "linger.ms": 5,
            "acks": "all",
            "queue.buffering.max.messages": 100_000,
        }
    )
    value = b"x" * RECORD_BYTES
    for _ in range(size // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(FLUSH_S_MAX) == 0


def _consume(options: dict[str, Any], topic: str, size: int) -> None:
    consumer = confluent_kafka.Consumer({**options, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        left = size // RECORD_BYTES
        while left:
            left -= len(consumer.consume(min(left, 10_000), 10))
    finally:
        consumer.close()


def _restrict(ports: dict[str, int]) -> None:
    """Each request is checked against an ACL, and charged to a quota that is never reached."""
    admin = Security(mechanism="SCRAM-SHA-256", username="admin", password=PASSWORD)
    rules = [
        AclBinding(
            kind, AclPatternType.LITERAL, "*", "User:ANONYMOUS", "*", AclOperation.ALL, AclPermission.ALLOW
        )
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP)
    ]
    with TidelogAdmin(bootstrap_servers=f"127.0.0.1:{ports['SCRAM']}", security=admin) as client:
        client.create_acls(rules)
        client.alter_client_quotas(
            {QuotaEntity(user=DEFAULT_ENTITY): {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12}}
        )


def _logins(broker: BrokerProcess, ports: dict[str, int]) -> list[float]:
    """Log-ins with SCRAM-SHA-256 that one core of the broker could answer in a second: from its CPU time."""
    with TidelogAdmin(bootstrap_servers=f"127.0.0.1:{ports['PLAIN']}") as client:
        client.alter_user_scram_credentials({"ann": PASSWORD}, mechanism="SCRAM-SHA-256", iterations=8192)
    login = Security(mechanism="SCRAM-SHA-256", username="ann", password=PASSWORD)

    async def one() -> None:
        async with Admin(bootstrap_servers=f"127.0.0.1:{ports['SCRAM']}", security=login) as client:
            await client.describe_cluster()

    async def several() -> None:
        for _ in range(LOGINS // AT_ONCE):
            await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    rates = []
    for _ in range(3):
        meter = CpuMeter(broker)
        asyncio.run(several())
        rates.append(LOGINS / meter.read())
    return rates


SCENARIO = Scenario(
    "security",
    (
        Row("security-plain-produce", "plain text, produce: CPU", "s/GB"),
        Row("security-plain-consume", "plain text, consume: CPU", "s/GB"),
        Row("security-tls-produce", f"TLS, produce: CPU ({CIPHER})", "s/GB", Goal(ratio_most=0.6)),
        Row("security-tls-consume", "TLS, consume: CPU", "s/GB", Goal(ratio_most=0.9)),
        Row("security-acls-produce", "plain text with ACLs and quotas, produce: CPU", "s/GB"),
        Row("security-acls-consume", "plain text with ACLs and quotas, consume: CPU", "s/GB"),
        Row("security-logins", "log-ins with SCRAM, by CPU of the broker", "1/s"),
    ),
    run,
)
