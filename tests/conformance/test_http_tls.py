"""TLS on the HTTP port, bearer tokens there, and a cluster where every listener has TLS and a login."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA, SETTINGS
from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.gateways.http.handshakes import HANDSHAKES_MAX

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.conformance.certificates import make_certificates

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port")

KEY = rsa.generate_private_key(65537, 2048)
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="n" '


class TlsBroker(TidelogBroker):
    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]  # the settings have the listeners


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    numbers = KEY.public_key().public_numbers()
    jwk = {"kty": "RSA", "kid": "k", "n": _number(numbers.n), "e": _number(numbers.e)}
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk]}))
    return folder


@pytest.fixture(scope="module")
def guarded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogBroker]:
    port = free_port()
    settings = SETTINGS | {
        "listeners": f"SEC://127.0.0.1:{port}",
        "listener.security.protocol.map": "SEC:SASL_SSL",
        "inter.broker.listener.name": "SEC",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.sec.plain.sasl.jaas.config": f'{LOGIN} user_node="n" user_ann="a-secret";',
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "tidelog.http.ssl": "true",
        "authorizer.class.name": "tidelog",
        "super.users": "User:ann;User:node",
        "connection.failed.authentication.delay.ms": "20",
    }
    running = TlsBroker(tmp_path_factory.mktemp("tls"), settings)
    running.port = port
    running.start()
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


def _number(value: int) -> str:
    return _packed(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(user: str, lifetime_s: int = 600) -> str:
    now = int(time.time())
    claims = {"sub": user, "iat": now - 60, "exp": now + lifetime_s, "scope": "x"}
    content = ".".join(_packed(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k"}, claims))
    return f"{content}.{_packed(KEY.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def basic(login: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def ask(
    broker: TidelogBroker,
    folder: Path,
    method: str,
    path: str,
    headers: dict[str, str],
    body: Any = None,
    ca: str = "ca.pem",
) -> tuple[int, Any, bytes]:
    """(status, body, the broker's certificate)"""
    context = ssl.create_default_context(cafile=folder / ca)
    host, _, port = broker.http.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
    try:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, None if body is None else json.dumps(body), sent | headers)
        certificate = connection.sock.getpeercert(True)  # type: ignore[union-attr]
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text, certificate
    finally:
        connection.close()


def test_records_go_through_a_cluster_that_has_tls_and_logins_everywhere(
    guarded: TidelogBroker, folder: Path
) -> None:
    ann = basic("ann:a-secret")
    _, clusters, _ = ask(guarded, folder, "GET", "/v3/clusters", ann)
    root = f"/v3/clusters/{clusters['data'][0]['cluster_id']}/topics"
    body = {"topic_name": "t", "partitions_count": 1, "replication_factor": 1}
    status, made, _ = ask(guarded, folder, "POST", root, ann, body)
    assert status == 201, made
    record = {"value": {"type": "STRING", "data": "hello"}}
    _, sent, _ = ask(guarded, folder, "POST", f"{root}/t/records", ann, record)
    assert sent["error_code"] == 200
    status, page, _ = ask(guarded, folder, "GET", "/console/topics/t/messages", ann)
    assert status == 200 and b"hello" in page


def test_a_bearer_token_is_a_login(guarded: TidelogBroker, folder: Path) -> None:
    def status_of(text: str) -> int:
        return ask(guarded, folder, "GET", "/metrics", {"Authorization": f"Bearer {text}"})[0]

    assert status_of(token("ann")) == 200
    assert status_of(token("somebody")) == 403
    assert status_of(token("ann", lifetime_s=-120)) == 401
    assert status_of(token("ann")[:-4] + "AAAA") == 401


def test_plain_text_gets_no_answer(guarded: TidelogBroker) -> None:
    host, _, port = guarded.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.request("GET", "/health/live")
        connection.getresponse()


def test_a_client_that_never_finishes_its_handshake_is_let_go(guarded: TidelogBroker, folder: Path) -> None:
    host, _, port = guarded.http.rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=60) for _ in range(HANDSHAKES_MAX + 20)]
    assert ask(guarded, folder, "GET", "/health/live", {})[0] == 200
    ends = []
    for connection in silent:
        try:
            ends.append(connection.recv(1))
        except ConnectionResetError:
            ends.append(b"")
        connection.close()
    assert set(ends) == {b""}


def test_a_new_certificate_is_taken_without_a_restart(guarded: TidelogBroker, folder: Path) -> None:
    _, _, before = ask(guarded, folder, "GET", "/health/live", {})
    make_certificates(folder)
    deadline = time.monotonic() + 30
    while True:
        try:
            status, _, after = ask(guarded, folder, "GET", "/health/live", {})
            break
        except ssl.SSLError:  # it is still the old one, of another authority
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert status == 200 and after != before
