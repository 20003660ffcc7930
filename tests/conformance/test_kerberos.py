"""GSSAPI log-ins with a real KDC: our client and librdkafka's (kcat), and exchanges that are wrong, old, replayed, cut off
or bent."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.conformance import apache_kafka
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.kdc import REALM, SKEW_S, Kdc
from tests.conformance.process import free_port, wait_until
from tests.conformance.raw import Connection, ConnectionClosed
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, NewTopic, Security
from tidelog.aio import Admin as AsyncAdmin
from tidelog.errors import SaslAuthenticationFailed, TidelogError
from tidelog.net.gss import GssFailed, Initiator, client_credential

pytestmark = [
    pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka is set up without a KDC"),
    pytest.mark.xdist_group("kerberos"),
]

SECONDS = 60
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
REFUSED = "Authentication failed: Invalid Kerberos credentials"


class KerberosBroker(TidelogBroker):
    """One listener; who comes there is whom the ticket names.  alice is a super user."""

    keytab = Path()

    def command(self) -> list[str]:
        settings = {
            "listeners": f"KRB://127.0.0.1:{self.port}",
            "advertised.listeners": f"KRB://localhost:{self.port}",
            "listener.security.protocol.map": "KRB:SASL_PLAINTEXT",
            "inter.broker.listener.name": "KRB",
            "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.krb.gssapi.sasl.jaas.config": f'{MODULE}keyTab="{self.keytab}" '
            f'principal="kafka/localhost@{REALM}";',
            "authorizer.class.name": "tidelog",
            "super.users": "User:alice;User:kafka",
            "connection.failed.authentication.delay.ms": "20",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        command = [str(Path(sys.executable).parent / "tidelog"), "serve", "--http", self.http]
        command += ["--data", str(self.home / "data")]
        return command + [word for item in settings.items() for word in ("--set", "=".join(item))]

    def log_text(self) -> str:
        return (self.home / "broker.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    broker = KerberosBroker(tmp_path_factory.mktemp("kerberos"), {})
    broker.port, broker.keytab = free_port(), kdc.keytab("kafka/localhost")
    broker.start()
    with Admin(bootstrap_servers=at(broker), security=login(kdc, "alice")) as admin:
        admin.create_topics([NewTopic("tickets", 1, 1)])
    yield broker
    assert broker.alive(), broker.log_tail()
    broker.stop()


def at(broker: KerberosBroker) -> str:
    return f"localhost:{broker.port}"


_keytabs: dict[tuple[Path, str], Path] = {}


def keytab(kdc: Kdc, principal: str) -> Path:
    known = _keytabs.get((kdc.home, principal))
    if known is None:
        known = _keytabs[kdc.home, principal] = kdc.keytab(principal)
    return known


def login(kdc: Kdc, principal: str) -> Security:
    return Security(
        mechanism="GSSAPI", kerberos_principal=f"{principal}@{REALM}", kerberos_keytab=keytab(kdc, principal)
    )


def refused(broker: KerberosBroker, security: Security) -> str:
    with (
        pytest.raises(TidelogError) as caught,
        Admin(bootstrap_servers=at(broker), security=security) as admin,
    ):
        admin.list_topics()
    return str(caught.value)


def initiator(kdc: Kdc, principal: str = "alice") -> Initiator:
    return Initiator(
        "kafka", "localhost", client_credential(f"{principal}@{REALM}", str(keytab(kdc, principal)))
    )


class Exchange:
    """A connection that sends whatever a test wants."""

    def __init__(self, broker: KerberosBroker) -> None:
        self.connection = Connection(at(broker).replace("localhost", "127.0.0.1"))
        answer = self.connection.call("sasl_handshake", 1, mechanism="GSSAPI")
        assert (int(answer.error_code), list(answer.mechanisms)) == (0, ["GSSAPI", "PLAIN"])

    def say(self, token: bytes) -> Any:
        return self.connection.call("sasl_authenticate", 2, auth_bytes=token)

    def is_refused(self, token: bytes) -> bool:
        answer = self.say(token)
        return (int(answer.error_code), answer.error_message) == (SaslAuthenticationFailed.code, REFUSED)

    def until_the_layer(self, client: Initiator, first: bytes | None = None) -> bytes:
        """The broker's offer, still wrapped."""
        message = client.respond(b"") if first is None else first
        while not client.established:
            message = client.respond(self.say(message).auth_bytes)
        return bytes(self.say(message).auth_bytes)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()


def test_our_client_logs_in_with_a_keytab(kdc: Kdc, broker: KerberosBroker) -> None:
    with Admin(bootstrap_servers=at(broker), security=login(kdc, "alice")) as admin:
        assert "tickets" in [topic.name for topic in admin.list_topics()]
    with tidelog.Producer(bootstrap_servers=at(broker), security=login(kdc, "alice")) as producer:
        assert producer.send("tickets", b"by keytab").get(SECONDS).offset >= 0


def test_our_client_and_command_line_log_in_with_the_tickets_of_kinit(
    kdc: Kdc, broker: KerberosBroker, tmp_path: Path
) -> None:
    cache = kdc.tickets("alice", keytab(kdc, "alice"))
    properties = tmp_path / "kinit.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
    )
    command = [str(Path(sys.executable).parent / "tidelog"), "topics", "list", "--bootstrap", at(broker)]
    command += ["--command-config", str(properties), "--timeout", "20"]

    def listed(cache: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KRB5CCNAME": f"FILE:{cache}"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)

    with_tickets = listed(cache)
    assert with_tickets.returncode == 0 and "tickets" in with_tickets.stdout, with_tickets.stderr
    without = listed(tmp_path / "none")
    assert without.returncode == 1 and "no Kerberos credential" in without.stderr, without.stderr


def test_librdkafka_logs_in(kdc: Kdc, broker: KerberosBroker) -> None:
    command = [shutil.which("kcat") or "kcat", "-b", at(broker)]
    for option in (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        f"sasl.kerberos.principal=alice@{REALM}",
        f"sasl.kerberos.keytab={keytab(kdc, 'alice')}",
    ):
        command += ["-X", option]
    environment = {**os.environ, "KRB5CCNAME": f"FILE:{kdc.home}/kcat.cache"}
    sent = subprocess.run(
        [*command, "-P", "-t", "tickets"],
        input=b"by librdkafka\n",
        env=environment,
        capture_output=True,
        timeout=SECONDS,
    )
    assert sent.returncode == 0, sent.stderr
    read = subprocess.run(
        [*command, "-C", "-t", "tickets", "-o", "beginning", "-e"],
        env=environment,
        capture_output=True,
        timeout=SECONDS,
    )
    assert b"by librdkafka" in read.stdout.splitlines(), read.stderr


def test_the_acls_count_for_the_short_name(kdc: Kdc, broker: KerberosBroker) -> None:
    with Admin(bootstrap_servers=at(broker), security=login(kdc, "bob")) as admin:
        assert admin.list_topics() == []
        with pytest.raises(tidelog.errors.ClusterAuthorizationFailed, match="User:bob"):
            admin.describe_acls()


def test_rules_turn_principals_into_names(kdc: Kdc, broker: KerberosBroker, tmp_path: Path) -> None:
    rules = r"RULE:[2:$1-$2](web-.*)s/web-(.*)/team-$1/,DEFAULT"
    other = KerberosBroker(tmp_path, {"sasl.kerberos.principal.to.local.rules": rules})
    other.port, other.keytab = free_port(), broker.keytab
    other.start()
    try:
        with (
            Admin(bootstrap_servers=at(other), security=login(kdc, "web/shop")) as admin,
            pytest.raises(tidelog.errors.ClusterAuthorizationFailed, match="User:team-shop"),
        ):
            admin.describe_acls()
    finally:
        other.discard()


def test_a_ticket_for_a_key_that_the_broker_has_not_is_refused(kdc: Kdc, tmp_path: Path) -> None:
    """Of a service of its own: new keys of the others' would make their tickets worthless."""
    keytab_of_broker, principal = tmp_path / "broker.keytab", f"moved/localhost@{REALM}"
    settings = {
        "sasl.kerberos.service.name": "moved",
        "listener.name.krb.gssapi.sasl.jaas.config": f'{MODULE}keyTab="{keytab_of_broker}" principal="{principal}";',
    }
    old = KerberosBroker(tmp_path, settings)
    old.port = free_port()
    shutil.copy(kdc.keytab("moved/localhost", "first.keytab"), keytab_of_broker)
    old.start()
    try:
        newer = kdc.keytab("moved/localhost", "second.keytab")
        security = Security(
            mechanism="GSSAPI",
            kerberos_service_name="moved",
            kerberos_principal=f"carol@{REALM}",
            kerberos_keytab=keytab(kdc, "carol"),
        )
        assert REFUSED in refused(old, security)
        assert "a Kerberos log-in from 127.0.0.1 failed" in old.log_text()
        shutil.copy(newer, keytab_of_broker)  # read with the next log-in
        with Admin(bootstrap_servers=at(old), security=security) as admin:
            assert admin.list_topics() == []
    finally:
        old.discard()


def test_a_broker_without_its_key_does_not_start(kdc: Kdc, tmp_path: Path) -> None:
    broker = KerberosBroker(tmp_path, {})
    broker.port = free_port()
    for path, words in (
        (tmp_path / "missing.keytab", "no Kerberos credential for kafka/localhost"),
        (keytab(kdc, "alice"), "no Kerberos credential for kafka/localhost"),
    ):
        broker.keytab = path
        done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 1 and words in done.stderr, done.stderr


def test_a_ticket_counts_once_and_not_for_long(kdc: Kdc, broker: KerberosBroker) -> None:
    client = initiator(kdc)
    first = client.respond(b"")
    with Exchange(broker) as exchange:
        exchange.until_the_layer(client, first)
    with Exchange(broker) as exchange:
        assert exchange.is_refused(first), "a replayed ticket"
    wait_until(lambda: "replay" in broker.log_text().lower(), SECONDS, "the log says so")
    late = initiator(kdc).respond(b"")
    time.sleep(2 * SKEW_S)
    with Exchange(broker) as exchange:
        assert exchange.is_refused(late), "an old authenticator"
    assert "skew" in broker.log_text().lower()


def test_an_expired_ticket_is_refused(kdc: Kdc, broker: KerberosBroker) -> None:
    cache = kdc.tickets("dave", keytab(kdc, "dave"), "-l", "1s")
    time.sleep(2 + SKEW_S)
    before, os.environ["KRB5CCNAME"] = os.environ.get("KRB5CCNAME"), f"FILE:{cache}"
    try:
        with pytest.raises(GssFailed, match=r"(?i)expired"):
            Initiator("kafka", "localhost", client_credential(None, None)).respond(b"")
        assert "expired" in refused(broker, Security(mechanism="GSSAPI")).lower()
    finally:
        if before is None:
            del os.environ["KRB5CCNAME"]
        else:
            os.environ["KRB5CCNAME"] = before


def test_another_service_is_not_found(kdc: Kdc, broker: KerberosBroker) -> None:
    security = Security(
        mechanism="GSSAPI",
        kerberos_service_name="http",
        kerberos_principal=f"alice@{REALM}",
        kerberos_keytab=keytab(kdc, "alice"),
    )
    assert "no ticket for http on localhost" in refused(broker, security)


def test_a_ticket_that_is_cut_off_or_bent_is_refused(kdc: Kdc, broker: KerberosBroker) -> None:
    token = initiator(kdc).respond(b"")
    sizes = (0, 1, 2, 16, 17, len(token) // 2, len(token) - 1)
    bent = [token[:size] for size in sizes]
    bent += [
        token[:place] + bytes((token[place] ^ 0xFF,)) + token[place + 1 :]
        for place in (0, 3, 20, 300, -200, -1)
    ]
    bent += [b"NTLMSSP\0\x01\0\0\0" + bytes(28), b"\x60\x82\xff\xff", bytes(65_536), token * 40]
    for wrong in bent:
        with Exchange(broker) as exchange:
            assert exchange.is_refused(wrong), (len(token), len(wrong), wrong[:48].hex())
    with Admin(bootstrap_servers=at(broker), security=login(kdc, "alice")) as admin:
        assert admin.list_topics()


@pytest.mark.parametrize(
    "choice",
    [
        b"",
        b"\x01",
        b"\x01\0\0",
        b"\x02\0\xff\xff",
        b"\x04\0\xff\xff",
        b"\x03\0\0\0",
        b"\0\0\0\0",
        b"\xff" * 4,
    ],
)
def test_a_layer_that_was_not_offered_is_refused(kdc: Kdc, broker: KerberosBroker, choice: bytes) -> None:
    client = initiator(kdc)
    with Exchange(broker) as exchange:
        assert client.unwrap(exchange.until_the_layer(client)) == b"\x01\0\0\0"
        assert exchange.is_refused(client.wrap(choice))


def test_a_layer_that_is_not_wrapped_or_of_another_exchange_is_refused(
    kdc: Kdc, broker: KerberosBroker
) -> None:
    client, other = initiator(kdc), initiator(kdc)
    with Exchange(broker) as first, Exchange(broker) as second:
        first.until_the_layer(client)
        second.until_the_layer(other)
        assert first.is_refused(b"\x01\0\0\0")
        assert second.is_refused(client.wrap(b"\x01\0\0\0"))


def test_nothing_is_served_between_the_ticket_and_the_layer(kdc: Kdc, broker: KerberosBroker) -> None:
    client = initiator(kdc)
    with Exchange(broker) as exchange:
        exchange.until_the_layer(client)
        with pytest.raises((ConnectionClosed, OSError)):
            exchange.connection.call("metadata", 9, topics=[])


async def test_many_clients_at_once(kdc: Kdc, broker: KerberosBroker) -> None:
    await asyncio.gather(*(_lists_topics(kdc, broker) for _ in range(20)))


async def _lists_topics(kdc: Kdc, broker: KerberosBroker) -> None:
    async with AsyncAdmin(bootstrap_servers=at(broker), security=login(kdc, "alice")) as admin:
        assert await admin.list_topics()


def test_kafkas_own_tools_log_in(
    kdc: Kdc, broker: KerberosBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := apache_kafka.resolve_jars():
        pytest.skip(reason)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.home}/krb5.conf")
    properties = tmp_path / "java.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={MODULE}keyTab="{keytab(kdc, "alice")}" principal="alice@{REALM}";\n'
    )
    login = ("--bootstrap-server", at(broker), "--command-config", str(properties))
    apache_kafka.tool("topics", *login, "--create", "--topic", "by-java")
    assert "by-java" in apache_kafka.tool("topics", *login, "--list").split()
