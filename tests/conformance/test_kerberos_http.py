"""Kerberos tickets on the HTTP port (Negotiate): curl, the command line, the console, and tickets that do not count."""

from __future__ import annotations

import base64
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.kdc import REALM, SKEW_S, Kdc
from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.net.gss import Initiator, client_credential

pytestmark = [
    pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port"),
    pytest.mark.xdist_group("kerberos"),
]

SECONDS = 60
SETTING = "listener.name.http.gssapi.sasl.jaas.config"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
CLUSTERS = "/v3/clusters"


class TicketBroker(TidelogBroker):
    """Its HTTP port takes tickets; alice is a super user.  A PLAINTEXT listener serves the broker itself."""

    def __init__(self, home: Path, keytab: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.port, self.keytab = free_port(), keytab

    def command(self) -> list[str]:
        settings = {
            SETTING: f'{MODULE}keyTab="{self.keytab}" principal="HTTP/localhost@{REALM}";',
            "authorizer.class.name": "tidelog",
            "super.users": "User:alice;User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": "20",
            **self.settings,
        }
        command = [str(Path(sys.executable).parent / "tidelog"), "serve", "--http", self.http]
        command += ["--listen", self.bootstrap, "--data", str(self.data)]
        return command + [word for item in settings.items() for word in ("--set", "=".join(item))]

    def log_text(self) -> str:
        return (self.home / "broker.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def keytab(kdc: Kdc) -> Path:
    return kdc.keytab("HTTP/localhost")


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Path:
    return kdc.keytab("alice")


@pytest.fixture(scope="module")
def broker(kdc: Kdc, keytab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TicketBroker]:
    broker = TicketBroker(tmp_path_factory.mktemp("broker"), keytab, {})
    broker.start()
    yield broker
    assert broker.alive(), broker.log_tail()
    broker.stop()


class HttpAnswer(NamedTuple):
    status: int
    challenges: list[str]
    location: str | None
    cookie: str
    body: str


def ask(
    broker: TicketBroker, authorization: str | None, path: str = CLUSTERS, cookie: str = ""
) -> HttpAnswer:
    connection = http.client.HTTPConnection(broker.http, timeout=SECONDS)
    headers = {"host": broker.http.replace("127.0.0.1", "localhost"), "cookie": cookie}
    if authorization is not None:
        headers["authorization"] = authorization
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return HttpAnswer(
            answer.status,
            answer.headers.get_all("www-authenticate") or [],
            answer.headers.get("location"),
            answer.headers.get("set-cookie", "").partition(";")[0],
            answer.read().decode(),
        )
    finally:
        connection.close()


def initiator(keytab: Path, principal: str = "alice", service: str = "HTTP") -> Initiator:
    return Initiator(service, "localhost", client_credential(f"{principal}@{REALM}", str(keytab)))


def negotiate(token: bytes) -> str:
    return f"Negotiate {base64.b64encode(token).decode()}"


def curl(broker: TicketBroker, cache: Path, path: str = CLUSTERS) -> tuple[int, str]:
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--negotiate",
        "--user",
        ":",
        "--write-out",
        "\n%{http_code}",
    ]
    command.append(f"http://localhost:{broker.http.rpartition(':')[2]}{path}")
    environment = {**os.environ, "KRB5CCNAME": f"FILE:{cache}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_curl_logs_in_with_the_tickets_of_kinit(kdc: Kdc, alice: Path, broker: TicketBroker) -> None:
    cache = kdc.tickets("alice", alice)
    for _ in range(3):  # each request has a ticket of its own
        status, body = curl(broker, cache)
        assert (status, '"cluster_id"' in body) == (200, True), body
    status, body = curl(broker, kdc.home / "none.cache")
    assert status == 401, body


def test_acls_count_for_the_holder_of_the_ticket(kdc: Kdc, broker: TicketBroker) -> None:
    cache = kdc.tickets("bob", kdc.keytab("bob"))
    status, body = curl(broker, cache, "/console/brokers")
    assert (status, "Logged in as bob" in body) == (403, True), body


def test_the_broker_proves_itself(alice: Path, broker: TicketBroker) -> None:
    client = initiator(alice)
    answer = ask(broker, negotiate(client.respond(b"")))
    assert answer.status == 200
    (challenge,) = answer.challenges
    assert not client.established
    client.respond(base64.b64decode(challenge.removeprefix("Negotiate ")))
    assert client.established


def test_who_has_no_ticket_is_asked_for_one(broker: TicketBroker) -> None:
    answer = ask(broker, None)
    assert answer.status == 401
    assert "Negotiate" in answer.challenges and any("Basic" in challenge for challenge in answer.challenges)


def test_a_ticket_counts_once(alice: Path, broker: TicketBroker) -> None:
    shown = negotiate(initiator(alice).respond(b""))
    assert ask(broker, shown).status == 200
    assert ask(broker, shown).status == 401
    assert "replay" in broker.log_text().lower()


def test_tickets_that_are_bent_old_or_of_another_service_are_refused(
    kdc: Kdc, alice: Path, broker: TicketBroker
) -> None:
    kdc.keytab("other/localhost")
    token, late = initiator(alice).respond(b""), initiator(alice).respond(b"")
    elsewhere = initiator(alice, service="other").respond(b"")
    wrong = [
        "Negotiate",
        "Negotiate ===",
        "Negotiate \u00e4",
        negotiate(b"NTLMSSP\0\x01\0\0\0" + bytes(28)),
        negotiate(bytes(40_000)),
        negotiate(elsewhere),
        *(negotiate(token[:size]) for size in (1, 2, 17, len(token) // 2, len(token) - 1)),
        *(
            negotiate(token[:place] + bytes((token[place] ^ 0xFF,)) + token[place + 1 :])
            for place in (0, 3, 20, 300, -1)
        ),
    ]
    bodies = set()
    for shown in wrong:
        answer = ask(broker, shown)
        assert answer.status == 401, shown
        bodies.add(answer.body)
    time.sleep(2 * SKEW_S)
    bodies.add(ask(broker, negotiate(late)).body)
    assert len(bodies) == 1, "refusals tell nothing"
    assert ask(broker, negotiate(token)).status == 401, "it is old by now"
    assert ask(broker, negotiate(initiator(alice).respond(b""))).status == 200


def test_the_console_opens_a_session_for_a_ticket(alice: Path, broker: TicketBroker) -> None:
    page = "/console/login/kerberos?next=%2Fconsole%2Ftopics"
    assert 'href="/console/login/kerberos?next=%2F"' in ask(broker, None, "/console/login").body
    asked = ask(broker, None, page)
    assert (asked.status, asked.challenges) == (401, ["Negotiate"]) and "kinit" in asked.body
    assert ask(broker, negotiate(b"nothing"), page).status == 403
    opened = ask(broker, negotiate(initiator(alice).respond(b"")), page)
    assert (opened.status, opened.location) == (303, "/console/topics")
    assert ask(broker, None, "/console/topics", opened.cookie).status == 200
    assert ask(broker, None, "/console/topics").status == 401
    elsewhere = ask(
        broker, negotiate(initiator(alice).respond(b"")), "/console/login/kerberos?next=https://evil.example"
    )
    assert elsewhere.location == "/"


def test_the_command_line_asks_the_registry_with_a_ticket(
    alice: Path, broker: TicketBroker, tmp_path: Path
) -> None:
    properties = tmp_path / "alice.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        f"sasl.kerberos.principal=alice@{REALM}\nsasl.kerberos.keytab={alice}\n"
    )
    command = [str(Path(sys.executable).parent / "tidelog"), "schemas", "list"]
    command += ["--registry", f"http://localhost:{broker.http.rpartition(':')[2]}", "--command-config"]
    listed = subprocess.run([*command, str(properties)], capture_output=True, text=True, timeout=SECONDS)
    assert listed.returncode == 0, listed.stderr
    properties.write_text(properties.read_text().replace(f"alice@{REALM}", f"nobody@{REALM}"))
    refused = subprocess.run([*command, str(properties)], capture_output=True, text=True, timeout=SECONDS)
    assert refused.returncode == 1 and "no Kerberos credential" in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    ("principal", "settings", "words"),
    [
        ("kafka/localhost", {}, 'principal="HTTP/host@REALM"'),
        ("HTTP/elsewhere", {}, "no Kerberos credential for HTTP/elsewhere"),
        ("HTTP/localhost", {"authorizer.class.name": ""}, "HTTP requests need no login"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    keytab: Path, tmp_path: Path, principal: str, settings: dict[str, str], words: str
) -> None:
    entry = f'{MODULE}keyTab="{keytab}" principal="{principal}@{REALM}";'
    broker = TicketBroker(tmp_path, keytab, {SETTING: entry, **settings})
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode in (1, 2) and words in done.stderr, done.stderr
