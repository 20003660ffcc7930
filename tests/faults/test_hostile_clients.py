"""One address that does what it can against a broker, and clients of another one that go on as if it were not there.

Invariants only: good clients log in, write and read; memory stays bounded; the log says who the attacker was and which
bound stopped it.  What it costs them in time is measured by `python -m bench --only hostile`."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.secured import PASSWORD, SecuredBroker, by_tidelog, login_to
from tests.conformance.topics import create_topic
from tests.faults.broker import UNEXPECTED
from tests.faults.hostile_clients import (
    ADDRESS,
    FLOOD,
    Swarm,
    Target,
    all_topics_in_a_loop,
    deaf_readers,
    endless_handshakes,
    five_thousand_connections,
    flood_over_quota,
    giant_frames,
    half_giant_frames,
    login_flood,
    slowloris,
    under,
    wrong_login,
)
from tidelog import Admin
from tidelog.wire.client_quotas import QuotaEntity

MIB = 1 << 20
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "allow.everyone.if.no.acl.found": "true",
    "tidelog.login.timeout.ms": "5000",
    "tidelog.login.connections.max": "300",
    "tidelog.connection.stalled.ms": "2000",
    "connection.failed.authentication.delay.ms": "20",
    "queued.max.request.bytes": str(64 << 20),
}
TOPICS = 2_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("attacked"), SETTINGS)
    started.start()
    with Admin(bootstrap_servers=started.bootstrap) as admin:
        admin.alter_user_scram_credentials({"ann": PASSWORD}, mechanism="SCRAM-SHA-512")
    create_topic(started.bootstrap, FLOOD)
    yield started
    assert not UNEXPECTED.search(started.log_text()), started.log_tail()
    started.stop()


def target(broker: SecuredBroker) -> Target:
    return Target(broker.ports["PLAIN"], broker.ports["LOGIN"], broker.ports["BOTH"])


class Watched:
    """What the broker says from now on, and how much more memory it has."""

    def __init__(self, broker: SecuredBroker) -> None:
        self._broker = broker
        self._said = len(broker.log_text())
        self._resident = broker.resident_bytes()

    def log(self) -> str:
        return self._broker.log_text()[self._said :]

    def names(self, bound: str) -> bool:
        """A line names the attacker and the bound that stopped it."""
        return any(ADDRESS in line and bound in line for line in self.log().splitlines())

    def grown(self) -> int:
        return self._broker.resident_bytes() - self._resident


def good_clients_are_served(broker: SecuredBroker, rounds: int = 2) -> None:
    """With fresh logins each time, over TLS and without."""
    for _ in range(rounds):
        for listener, mechanism in (("BOTH", "SCRAM-SHA-512"), ("LOGIN", "PLAIN"), ("PLAIN", None)):
            name = f"good-{uuid.uuid4().hex[:8]}"
            values = [b"one", b"two", b"three"]
            assert by_tidelog(login_to(broker, listener, mechanism), name, name, values) == values


# Each attack: (what it does, what the log has to say of it, by how much memory may grow in MiB)
ATTACKS: dict[str, tuple[Any, str, int]] = {
    "slowloris": (slowloris, "tidelog.login.connections.max", 40),
    "5,000 connections": (five_thousand_connections, "tidelog.login.connections.max", 40),
    "giant frames": (giant_frames, "a frame of 104857599 bytes", 300),
    "half a login": (half_giant_frames, "tidelog.login", 80),
    "endless handshakes": (endless_handshakes, "TLS handshake", 60),
    "wrong passwords": (login_flood, "refused the login", 60),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_good_clients_are_served_beside(name: str, broker: SecuredBroker) -> None:
    attack, words, grown_mib = ATTACKS[name]
    good_clients_are_served(broker, rounds=1)
    watched = Watched(broker)
    with under(attack, target(broker)):
        wait_until(lambda: watched.names(words), 60, f"the log tells of {name}")
        good_clients_are_served(broker)
        assert watched.grown() < grown_mib * MIB, f"{watched.grown() >> 20} MiB more"
    assert len(watched.log().splitlines()) < 2_000
    assert broker.alive()


def test_who_says_nothing_is_closed_when_the_time_to_log_in_is_over(broker: SecuredBroker) -> None:
    watched = Watched(broker)
    swarm, stop = Swarm(broker.ports["LOGIN"], 20, lambda: b"\0\0", b""), threading.Event()
    thread = threading.Thread(target=swarm.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: swarm.closed >= 20, 60, "all were closed")
    finally:
        stop.set()
        thread.join()
    assert watched.names("tidelog.login.timeout.ms")


def test_a_frame_before_the_login_is_as_small_as_logins_are(broker: SecuredBroker) -> None:
    watched = Watched(broker)
    with Connection(broker.at("LOGIN")) as stranger, Connection(broker.at("PLAIN")) as known:
        for each in (stranger, known):
            each.send_bytes((524_289).to_bytes(4, "big"))
        assert stranger.closed_by_broker()
        assert "a frame of 524289 bytes: between 8 and 524288" in watched.log()
        known.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            known.socket.recv(1)


def test_large_frames_are_taken_after_the_login(broker: SecuredBroker) -> None:
    name = f"large-{uuid.uuid4().hex[:8]}"
    value = bytes(900_000)
    assert by_tidelog(login_to(broker, "BOTH", "SCRAM-SHA-512"), name, name, [value]) == [value]


def test_refusals_of_one_address_take_longer_and_longer(broker: SecuredBroker) -> None:
    times = []
    for _ in range(8):
        with socket.socket() as made:
            made.bind(("127.0.0.3", 0))
            made.connect(("127.0.0.1", broker.ports["LOGIN"]))
            made.settimeout(60)
            began = time.monotonic()
            made.sendall(wrong_login())
            while made.recv(1000):
                pass
            times.append(time.monotonic() - began)
    # 20 ms and 50 until the end: the eighth answer comes after 160 ms.
    assert times[7] > 0.16


def test_readers_that_never_read_are_closed_and_named(broker: SecuredBroker) -> None:
    many_topics(broker)
    watched = Watched(broker)
    with under(deaf_readers, target(broker)):
        wait_until(lambda: watched.names("tidelog.connection.stalled.ms"), 60, "they are closed")
        good_clients_are_served(broker)
        assert watched.grown() < 250 * MIB, f"{watched.grown() >> 20} MiB more"


def test_questions_for_all_of_many_topics_hold_up_nobody(broker: SecuredBroker) -> None:
    many_topics(broker)
    with Connection(broker.bootstrap) as connection:
        names = {topic.name for topic in connection.call("metadata", 12, topics=None).topics}
        assert len(names) >= TOPICS
        for version in range(13):
            # One byte for byte as the other clients expect it, in every version.
            assert len(connection.call("metadata", version, topics=None if version else []).topics) == len(
                names
            )
    watched = Watched(broker)
    with under(all_topics_in_a_loop, target(broker)):
        good_clients_are_served(broker)
        assert watched.grown() < 100 * MIB, f"{watched.grown() >> 20} MiB more"


def many_topics(broker: SecuredBroker) -> None:
    with Connection(broker.bootstrap) as connection:
        if len(connection.call("metadata", 12, topics=None).topics) >= TOPICS:
            return
        for start in range(0, TOPICS, 500):
            topics = [
                {"name": f"many-{number}", "num_partitions": 1, "replication_factor": 1}
                for number in range(start, start + 500)
            ]
            answer = connection.call("create_topics", 7, topics=topics, timeout=60_000)
            assert {topic.error_code.name for topic in answer.topics} == {"none"}


def test_a_flood_over_its_quota_is_throttled(broker: SecuredBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=FLOOD): {"producer_byte_rate": 500_000.0}})
    watched = Watched(broker)
    with under(flood_over_quota, target(broker)):
        good_clients_are_served(broker)
        assert watched.grown() < 250 * MIB, f"{watched.grown() >> 20} MiB more"


def test_renegotiation_is_refused(broker: SecuredBroker) -> None:
    """OpenSSL's client asks for one when its input has a line with R."""
    command = ["openssl", "s_client", "-connect", broker.at("BOTH"), "-tls1_2", "-legacy_renegotiation"]
    done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=60)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert "Cipher is" in said and "Cipher is (NONE)" not in said, said
    assert re.search(r"RENEGOTIATING", said) and re.search(r"no renegotiation|renegotiation", said), said
    assert done.returncode != 0, said


def test_older_tls_is_refused(broker: SecuredBroker) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", broker.ports["BOTH"])) as made, pytest.raises(ssl.SSLError):
        context.wrap_socket(made)


def test_a_listener_of_brokers_keeps_a_place(tmp_path: Path) -> None:
    """`PLAIN` is the listener for brokers.  Clients take every place, and a broker still comes."""
    broker = SecuredBroker(
        tmp_path, {**SETTINGS, "max.connections": "20", "tidelog.login.timeout.ms": "60000"}
    )
    broker.start()
    try:
        swarm, stop = Swarm(broker.ports["LOGIN"], 25, rate=200), threading.Event()
        thread = threading.Thread(target=swarm.run, args=(stop,))
        thread.start()
        try:
            wait_until(lambda: "max.connections (20) is reached" in broker.log_text(), 60, "all is taken")
            for _ in range(3):
                with Connection(broker.bootstrap) as connection:
                    assert connection.call("metadata", 12, topics=[]).brokers
        finally:
            stop.set()
            thread.join()
        assert "a broker on listener PLAIN takes its place" in broker.log_text()
        broker.stop()
    finally:
        broker.discard()


def test_an_address_that_holds_all_places_of_the_http_port_gives_one_up(broker: SecuredBroker) -> None:
    host, _, port = broker.http.rpartition(":")
    made = []
    try:
        for _ in range(256):
            each = socket.socket()
            each.bind((ADDRESS, 0))
            each.connect((host, int(port)))
            # Once asked, and then kept: nobody is silent here.
            each.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            made.append(each)
        for each in made:
            assert each.recv(1000).startswith(b"HTTP/1.1 200")
        with socket.create_connection((host, int(port)), timeout=30) as good:
            good.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert good.recv(1000).startswith(b"HTTP/1.1 200")
        made[0].settimeout(60)
        while made[0].recv(1000):  # what is left of the answer, and then the end
            pass
    finally:
        for each in made:
            each.close()
