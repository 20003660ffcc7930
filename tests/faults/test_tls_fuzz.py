"""Garbage and mutated TLS to a running broker: ClientHellos, records and logins with bytes changed, cut and repeated.  The
process lives, its neighbours log in, every connection is closed, its log tells of no bug."""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from collections.abc import Iterator
from random import Random

import pytest

pytest.importorskip("cryptography")

from tests.conformance.raw import encode_request
from tests.conformance.secured import PASSWORD, SecuredBroker, by_tidelog, login_to
from tests.faults.broker import UNEXPECTED
from tidelog import Admin

MIB = 1 << 20
RECORD_TYPES = (20, 21, 22, 23, 24, 0, 255)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "allow.everyone.if.no.acl.found": "true",
    "tidelog.login.timeout.ms": "3000",
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("tls"), SETTINGS)
    started.start()
    with Admin(bootstrap_servers=started.bootstrap) as admin:
        admin.alter_user_scram_credentials({"ann": PASSWORD}, mechanism="SCRAM-SHA-512")
    yield started
    started.stop()


class Client:
    """A TLS client whose bytes can be changed on their way."""

    def __init__(self, broker: SecuredBroker, random: Random) -> None:
        self.random = random
        self.listener = random.choice(("BOTH", "MUTUAL"))
        self.socket = socket.create_connection(("127.0.0.1", broker.ports[self.listener]), timeout=30)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if random.random() < 0.5:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if random.random() < 0.5:
            context.load_cert_chain(broker.home / "client.pem", broker.home / "client.key")
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._in, self._out, server_hostname=random.choice((None, "x", "127.0.0.1"))
        )

    def shake(self, bends: int) -> bool:
        """The handshake, with the flight number `bends` of the client changed; true when it has succeeded."""
        for flight in range(6):
            try:
                self.tls.do_handshake()
                self._send(flight == bends)
                return True
            except ssl.SSLWantReadError:
                self._send(flight == bends)
                data = self.socket.recv(65_536)
                if not data:
                    return False
                self._in.write(data)
            except ssl.SSLError:
                return False
        return False

    def say(self, data: bytes, bends: bool) -> None:
        self.tls.write(data)
        self._send(bends)

    def _send(self, bends: bool) -> None:
        data = self._out.read()
        if data:
            self.socket.sendall(bent(self.random, data) if bends else data)

    def is_closed(self) -> bool:
        """Within the time to log in, and some more for a machine that is busy."""
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                if select.select([self.socket], [], [], 1)[0] and not self.socket.recv(65_536):
                    return True
        except OSError:
            return True
        return False


def bent(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 50))):
        if not changed:
            break
        at = random.randrange(len(changed))
        kind = random.random()
        if kind < 0.5:
            changed[at] = random.randrange(256)
        elif kind < 0.65:
            del changed[at : at + random.choice((1, 2, 10, 1_000))]
        elif kind < 0.8:
            changed[at:at] = random.randbytes(random.choice((1, 2, 10, 1_000)))
        elif kind < 0.9:
            changed[at:at] = changed[at : at + random.choice((5, 50, 500))]
        else:
            # The head of a record: another type, another length.
            changed[:1] = bytes([random.choice(RECORD_TYPES)])
            changed[3:5] = random.randbytes(2)
    return bytes(changed)


def garbage(random: Random) -> bytes:
    if random.random() < 0.5:
        return random.randbytes(random.choice((1, 5, 100, 20_000)))
    size = random.choice((0, 1, 2, 100, 16_384, 16_700, 65_535))
    head = bytes([random.choice(RECORD_TYPES), 3, random.randrange(5)]) + size.to_bytes(2, "big")
    return (head + random.randbytes(random.choice((0, size, size)))) * random.choice((1, 1, 10, 1_000))


def one(broker: SecuredBroker, random: Random) -> Client:
    client = Client(broker, random)
    kind = random.random()
    try:
        if kind < 0.3:
            client.socket.sendall(garbage(random))
        elif kind < 0.7:
            client.shake(random.choice((0, 0, 1, 2)))
        elif client.shake(-1):
            hello = encode_request("api_versions", 0, 1)
            login = encode_request("sasl_handshake", 1, 2, mechanism="PLAIN")
            client.say(bent(random, hello + login), bends=random.random() < 0.5)
            client.say(random.randbytes(random.choice((1, 100, 5_000))), bends=random.random() < 0.5)
    except OSError:
        pass  # closed by the broker
    return client


def fuzz(broker: SecuredBroker, seed: int, count: int) -> None:
    random = Random(seed)
    print(f"seed {seed}")
    before, clients = broker.resident_bytes(), []
    for number in range(count):
        clients.append(one(broker, random))
        if number % 100 == 99:
            name = f"fuzz-{random.getrandbits(32)}"
            assert by_tidelog(login_to(broker, "BOTH", "SCRAM-SHA-512"), name, name, [b"x"]) == [b"x"]
    for client in clients:
        # Without a login to wait for, who has shown a certificate may stay.
        may_stay = client.listener == "MUTUAL" and client.tls.version() is not None
        assert may_stay or client.is_closed(), "neither served nor closed"
        client.socket.close()
    assert broker.alive()
    assert broker.resident_bytes() - before < 100 * MIB
    assert not UNEXPECTED.search(broker.log_text()), broker.log_tail()


def test_a_broker_survives_tls_at_random(broker: SecuredBroker) -> None:
    fuzz(broker, int.from_bytes(os.urandom(4)), 300)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(10))
def test_a_broker_survives_tls_at_random_for_longer(number: int, broker: SecuredBroker) -> None:
    fuzz(broker, int.from_bytes(os.urandom(4)), 3_000)
