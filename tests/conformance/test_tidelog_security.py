"""TLS and logins of Tidelog's own client, on Apache Kafka."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin as confluent
import pytest

from tests.conformance import apache_kafka
from tests.conformance.process import free_port, wait_until
from tidelog import Admin, Producer, Security, Unreachable, errors

pytest.importorskip("cryptography")
from tests.conformance.certificates import make_certificates

LOGIN = "org.apache.kafka.common.security.{}.{}LoginModule required {};"
JAAS = {
    "plain": LOGIN.format("plain", "Plain", 'username="admin" password="x" user_me="secret"'),
    "scram-sha-256": LOGIN.format("scram", "Scram", 'username="admin" password="x"'),
    "scram-sha-512": LOGIN.format("scram", "Scram", 'username="admin" password="x"'),
    "oauthbearer": LOGIN.format("oauthbearer", "OAuthBearer", 'unsecuredLoginStringClaim_sub="admin"'),
}


class SecureKafka(apache_kafka.KafkaBroker):
    """Plain, TLS (with and without client certificates) and SASL listeners, each on a port of its own."""

    ports: dict[str, int]

    def _write_properties(self) -> None:
        super()._write_properties()
        self.ports = {"TLS": free_port(), "MUTUAL": free_port(), "LOGIN": free_port(), "BOTH": free_port()}
        protocols = {"TLS": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
        here = {"PLAINTEXT": self.port, **self.ports}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in here.items()]
        advertised = list(listeners)
        listeners.append(f"CONTROLLER://127.0.0.1:{self._controller_port}")
        protocol_map = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
        lines = {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{kind}" for name, kind in protocol_map.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.home / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.home / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "connections.max.reauth.ms": "3000",
            "broker.session.timeout.ms": "9000",
        }
        for name in ("login", "both"):
            for mechanism, jaas in JAAS.items():
                lines[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = jaas
        with (self.home / "server.properties").open("a") as properties:
            properties.write("".join(f"{key}={value}\n" for key, value in lines.items()))

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("secure")
    make_certificates(home)
    broker = SecureKafka(home, {})
    broker.start()
    admin = confluent.AdminClient({"bootstrap.servers": broker.bootstrap})
    for kind in (confluent.ScramMechanism.SCRAM_SHA_256, confluent.ScramMechanism.SCRAM_SHA_512):
        change = confluent.UserScramCredentialUpsertion(
            "me", confluent.ScramCredentialInfo(kind, 4096), b"secret"
        )
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(30)
    yield broker
    broker.discard()


def token() -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': 'me', 'iat': now - 5, 'exp': now + 60})}."


async def token_later() -> str:
    return token()


def writes(bootstrap: str, security: Security, size: int = 10) -> int:
    with Producer(bootstrap_servers=bootstrap, security=security) as producer:
        sent = [producer.send("orders", b"x" * size) for _ in range(50)]
        producer.flush(30)
        return len({one.get(0).offset for one in sent})


def refused(bootstrap: str, security: Security) -> BaseException:
    with pytest.raises(errors.TidelogError) as caught:
        Producer(bootstrap_servers=bootstrap, security=security)
    return caught.value


def test_tls_with_the_brokers_authority(kafka: SecureKafka) -> None:
    assert writes(kafka.at("TLS"), Security(ca=kafka.home / "ca.pem"), size=100_000) == 50


def test_a_certificate_nobody_vouches_for_is_refused(kafka: SecureKafka) -> None:
    for security in (Security(ca=kafka.home / "other-ca.pem"), Security(tls=True)):
        problem = refused(kafka.at("TLS"), security)
        assert isinstance(problem, Unreachable) and "certificate verify failed" in str(problem.__cause__)


def test_tls_and_plain_ports_are_told_apart(kafka: SecureKafka) -> None:
    problem = refused(kafka.bootstrap, Security(ca=kafka.home / "ca.pem"))
    assert isinstance(problem, Unreachable)
    with pytest.raises(Unreachable):
        Producer(bootstrap_servers=kafka.at("TLS"), connect_timeout_ms=2_000)


def test_a_client_certificate_opens_the_door(kafka: SecureKafka) -> None:
    home: Path = kafka.home
    mine = Security(ca=home / "ca.pem", certificate=home / "client.pem", key=home / "client.key")
    assert writes(kafka.at("MUTUAL"), mine) == 50
    assert isinstance(refused(kafka.at("MUTUAL"), Security(ca=home / "ca.pem")), Unreachable)


@pytest.mark.parametrize("listener", ["LOGIN", "BOTH"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_opens_the_door(kafka: SecureKafka, listener: str, mechanism: str) -> None:
    ca = kafka.home / "ca.pem" if listener == "BOTH" else None
    security = Security(ca=ca, mechanism=mechanism, username="me", password="secret")
    assert writes(kafka.at(listener), security) == 50
    wrong = refused(kafka.at(listener), Security(ca=ca, mechanism=mechanism, username="me", password="guess"))
    assert isinstance(wrong, errors.SaslAuthenticationFailed) and "did not let us in" in str(wrong)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_that_our_admin_client_set_opens_the_door(kafka: SecureKafka, mechanism: str) -> None:
    name, password = f"bjorn,={mechanism}", "pässword = 1, 2"
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        admin.alter_user_scram_credentials({name: password}, mechanism=mechanism)
        security = Security(mechanism=mechanism, username=name, password=password)
        wait_until(lambda: name in admin.describe_user_scram_credentials(), 10, "the user is known")
    assert writes(kafka.at("LOGIN"), security) == 50


@pytest.mark.parametrize("source", [token, token_later])
def test_a_token_opens_the_door(kafka: SecureKafka, source: Any) -> None:
    assert writes(kafka.at("LOGIN"), Security(mechanism="OAUTHBEARER", token=source)) == 50
    wrong = refused(kafka.at("LOGIN"), Security(mechanism="OAUTHBEARER", token=lambda: "nonsense"))
    assert isinstance(wrong, errors.SaslAuthenticationFailed)


def test_connections_that_may_not_live_longer_are_replaced_in_time(kafka: SecureKafka) -> None:
    """The broker ends a session after three seconds."""
    security = Security(mechanism="PLAIN", username="me", password="secret")
    with Producer(bootstrap_servers=kafka.at("LOGIN"), security=security, retries=0, acks=1) as producer:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            producer.send("orders", b"x").get(10)
