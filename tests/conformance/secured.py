"""A broker with one listener of each security protocol, and how clients of four libraries log in to it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

import tidelog
from tests.conformance.certificates import make_certificates
from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType

PASSWORD = "open, sesame=1"
PLAIN_PASSWORD = "listed-in-the-settings"
LISTENERS = {"PLAIN": "PLAINTEXT", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
SECONDS = 30
KEY_ID = "tests"


class SecuredBroker(TidelogBroker):
    """Who comes to PLAIN is a super user; the others must have ACLs."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.ports = {name: free_port() for name in LISTENERS}
        self.port = self.ports["PLAIN"]
        self.signer = rsa.generate_private_key(65537, 2048)
        home.mkdir(parents=True, exist_ok=True)
        make_certificates(home)
        (home / "jwks.json").write_text(json.dumps({"keys": [_jwk(self.signer)]}))

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def command(self) -> list[str]:
        settings = {
            "listeners": ",".join(f"{name}://{self.at(name)}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "PLAIN",
            "ssl.keystore.location": str(self.home / "broker.pem"),
            "ssl.truststore.location": str(self.home / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=client.*$/ann/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_ann="{PLAIN_PASSWORD}";',
            "sasl.oauthbearer.jwks.endpoint.url": (self.home / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": "https://login.example",
            "authorizer.class.name": "tidelog",
            "super.users": "User:ANONYMOUS;User:admin",
            "delegation.token.secret.key": "only-brokers-know-this",
            "connection.failed.authentication.delay.ms": "50",
            **self.settings,
        }
        command = [str(Path(sys.executable).parent / "tidelog"), "serve", "--http", self.http]
        command += ["--data", str(self.data)]
        return command + [word for item in settings.items() for word in ("--set", "=".join(item))]

    def token(self, subject: str = "ann", lifetime_s: float = 300, signer: Any = None, **claims: Any) -> str:
        now = time.time()
        content = {
            **{"sub": subject, "iss": "https://login.example", "scope": "kafka"},
            **{"iat": now - 600, "exp": now + lifetime_s, **claims},
        }
        start = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = f"{_encoded(json.dumps(start).encode())}.{_encoded(json.dumps(content).encode())}"
        signature = (signer or self.signer).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def log_text(self) -> str:
        return (self.home / "broker.log").read_text(errors="replace")


def _jwk(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()

    def number(value: int) -> str:
        return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))

    return {"kty": "RSA", "kid": KEY_ID, "use": "sig", "n": number(numbers.n), "e": number(numbers.e)}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True)
class Login:
    """How one client comes to one listener."""

    bootstrap: str
    ca: Path | None = None
    mechanism: str | None = None
    username: str = "ann"
    password: str = PASSWORD
    token: str = ""
    certificate: Path | None = None
    key: Path | None = None

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.ca else "PLAINTEXT")

    def context(self) -> ssl.SSLContext | None:
        if self.ca is None:
            return None
        context = ssl.create_default_context(cafile=str(self.ca))
        if self.certificate is not None:
            context.load_cert_chain(str(self.certificate), self.key)
        return context

    def but(self, **changes: Any) -> Login:
        return replace(self, **changes)


def login_to(broker: SecuredBroker, listener: str, mechanism: str | None = None) -> Login:
    protocol = LISTENERS[listener]
    login = Login(
        broker.at(listener), broker.home / "ca.pem" if protocol.endswith("SSL") else None, mechanism
    )
    if mechanism == "PLAIN":
        return login.but(password=PLAIN_PASSWORD)
    if mechanism == "OAUTHBEARER":
        return login.but(token=broker.token())
    if protocol == "SSL":
        return login.but(certificate=broker.home / "client.pem", key=broker.home / "client.key")
    return login


Passed = Callable[[Login, str, str, list[bytes]], list[bytes]]
"""Writes the values to a topic, reads as many with a group, and answers what it has read."""


def librdkafka_options(login: Login) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": login.protocol,
        "log_level": 0,
        "socket.timeout.ms": 10_000,
    }
    if login.ca is not None:
        options["ssl.ca.location"] = str(login.ca)
    if login.certificate is not None:
        options |= {"ssl.certificate.location": str(login.certificate), "ssl.key.location": str(login.key)}
    if login.mechanism == "OAUTHBEARER":
        options |= {
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (login.token, time.time() + 300),
        }
    elif login.mechanism is not None:
        options |= {"sasl.mechanism": login.mechanism}
        options |= {"sasl.username": login.username, "sasl.password": login.password}
    return options


def by_librdkafka(login: Login, topic: str, group: str, values: list[bytes]) -> list[bytes]:
    failed: list[Any] = []
    errors: list[Any] = []
    options = {**librdkafka_options(login), "error_cb": errors.append}
    producer = confluent_kafka.Producer({**options, "message.timeout.ms": 20_000})
    producer.poll(0)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failed.append(error))
    left = producer.flush(SECONDS)
    assert not left and not failed, (left, failed, errors)
    consumer = confluent_kafka.Consumer({**options, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < len(values) and time.monotonic() < deadline:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            found.append(record.value())
    consumer.close()
    assert len(found) >= len(values), errors
    return found


class _Tokens(KafkaPythonTokens):
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def kafka_python_options(login: Login) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": login.context(),
        "request_timeout_ms": 10_000,
    }
    if login.mechanism == "OAUTHBEARER":
        options |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _Tokens(login.token)}
    elif login.mechanism is not None:
        options |= {"sasl_mechanism": login.mechanism}
        options |= {"sasl_plain_username": login.username, "sasl_plain_password": login.password}
    return options


def by_kafka_python(login: Login, topic: str, group: str, values: list[bytes]) -> list[bytes]:
    options = kafka_python_options(login)
    producer = kafka.KafkaProducer(**options)
    try:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(SECONDS)
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(
        topic, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **options
    )
    found: list[bytes] = []
    try:
        for record in consumer:
            found.append(record.value)
            if len(found) == len(values):
                break
    finally:
        consumer.close()
    return found


class _AsyncTokens(AiokafkaTokens):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def by_aiokafka(login: Login, topic: str, group: str, values: list[bytes]) -> list[bytes]:
    async def passed() -> list[bytes]:
        options: dict[str, Any] = {
            "bootstrap_servers": login.bootstrap,
            "security_protocol": login.protocol,
            "ssl_context": login.context(),
            "request_timeout_ms": 10_000,
        }
        if login.mechanism == "OAUTHBEARER":
            options |= {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": _AsyncTokens(login.token),
            }
        elif login.mechanism is not None:
            options |= {"sasl_mechanism": login.mechanism}
            options |= {"sasl_plain_username": login.username, "sasl_plain_password": login.password}
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for value in values:
                await producer.send_and_wait(topic, value)
        found: list[bytes] = []
        consumer = aiokafka.AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **options)
        async with consumer, asyncio.timeout(SECONDS):
            while len(found) < len(values):
                found.append((await consumer.getone()).value)
        return found

    return asyncio.run(passed())


def tidelog_security(login: Login) -> tidelog.Security | None:
    if login.ca is None and login.mechanism is None:
        return None
    return tidelog.Security(
        ca=login.ca,
        certificate=login.certificate,
        key=login.key,
        mechanism=login.mechanism,
        username=login.username if login.mechanism not in (None, "OAUTHBEARER") else None,
        password=login.password if login.mechanism not in (None, "OAUTHBEARER") else None,
        token=(lambda: login.token) if login.mechanism == "OAUTHBEARER" else None,
    )


def by_tidelog(login: Login, topic: str, group: str, values: list[bytes]) -> list[bytes]:
    security = tidelog_security(login)
    with tidelog.Producer(bootstrap_servers=login.bootstrap, security=security) as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(SECONDS)
    found: list[bytes] = []
    with tidelog.Consumer(
        topic,
        bootstrap_servers=login.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        security=security,
    ) as consumer:
        deadline = time.monotonic() + SECONDS
        while len(found) < len(values) and time.monotonic() < deadline:
            found += [bytes(record.value or b"") for record in consumer.poll(1)]
    return found


CLIENTS: dict[str, Passed] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "tidelog": by_tidelog,
}


def acl(
    principal: str,
    operation: str,
    kind: str,
    name: str,
    *,
    prefixed: bool = False,
    deny: bool = False,
) -> AclBinding:
    return AclBinding(
        AclResourceType[kind.upper()],
        AclPatternType.PREFIXED if prefixed else AclPatternType.LITERAL,
        name,
        principal,
        "*",
        AclOperation[operation.upper()],
        AclPermission.DENY if deny else AclPermission.ALLOW,
    )
