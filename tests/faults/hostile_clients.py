"""Hostile clients, all of one address: what each does to a broker until it is told to stop.

Tests and the bench run each as a process of its own:
`python -m tests.faults.hostile_clients ATTACK PLAIN_PORT LOGIN_PORT TLS_PORT`."""

from __future__ import annotations

import errno
import resource
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count as counting
from pathlib import Path

from tests.conformance.batches import batch
from tests.conformance.raw import encode_request

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.2"
ROUND_S = 0.05
MIB = 1 << 20
FLOOD = "flood"
"""Client id, and topic, of the flood over its quota."""


@dataclass
class Target:
    plain: int
    """The ports: PLAINTEXT, SASL_PLAINTEXT, SASL_SSL."""
    login: int
    tls: int


@dataclass
class Swarm:
    """Keeps `size` connections to one port; those that the broker closes are made again, at `rate` a second at most."""

    port: int
    size: int
    first: Callable[[], bytes] = bytes
    """What each sends when it is made."""
    more: bytes = b""
    """What each sends again and again, as far as the broker takes it."""
    reads: bool = True
    rate: int = 2_000
    closed: int = 0
    sockets: list[socket.socket] = field(default_factory=list)
    _unsent: dict[int, bytes] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self._fill()
                self._talk()
                stop.wait(ROUND_S)
        finally:
            for each in self.sockets:
                each.close()

    def _fill(self) -> None:
        for _ in range(min(self.size - len(self.sockets), int(self.rate * ROUND_S))):
            made = socket.socket()
            made.setblocking(False)
            made.bind((ADDRESS, 0))
            if not self.reads:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            if made.connect_ex(("127.0.0.1", self.port)) not in (0, errno.EINPROGRESS):
                made.close()
                return
            self.sockets.append(made)
            self._unsent[made.fileno()] = self.first()

    def _talk(self) -> None:
        poll = select.poll()
        by_number = {each.fileno(): each for each in self.sockets}
        for number in by_number:
            wants = select.POLLOUT if self._unsent.get(number) or self.more else 0
            poll.register(number, wants | (select.POLLIN if self.reads else 0))
        for number, event in poll.poll(0):
            each = by_number[number]
            try:
                if event & (select.POLLHUP | select.POLLERR):
                    raise ConnectionResetError
                if event & select.POLLIN and each.recv(4 * MIB) == b"":
                    raise ConnectionResetError
                if event & select.POLLOUT:
                    self._send(number, each)
            except BlockingIOError:
                continue
            except OSError:
                self.closed += 1
                self.sockets.remove(each)
                each.close()

    def _send(self, number: int, each: socket.socket) -> None:
        data = self._unsent.get(number) or self.more
        self._unsent[number] = data[each.send(data) :]


Attack = Callable[[Target, threading.Event], None]


def slowloris(target: Target, stop: threading.Event) -> None:
    """A request before the login, a byte at a time."""
    Swarm(target.login, 500, lambda: struct.pack(">i", 1000), b"\0").run(stop)


def five_thousand_connections(target: Target, stop: threading.Event) -> None:
    Swarm(target.login, 5_000).run(stop)


def giant_frames(target: Target, stop: threading.Event) -> None:
    """Each announces a hundred megabytes and sends what the broker takes of them."""
    swarms = [
        Swarm(port, 100, lambda: struct.pack(">i", 100 * MIB - 1), bytes(MIB))
        for port in (target.login, target.plain)
    ]
    _together(stop, *(swarm.run for swarm in swarms))


def half_giant_frames(target: Target, stop: threading.Event) -> None:
    """As large as a login may be, and never whole."""
    Swarm(target.login, 900, lambda: struct.pack(">i", 500_000) + bytes(400_000)).run(stop)


def endless_handshakes(target: Target, stop: threading.Event) -> None:
    """Some begin one and say no more, others finish one and begin the next."""
    beginning = Swarm(target.tls, 200, lambda: b"\x16\x03\x01\x02\x00\x01\x00")
    _together(stop, beginning.run, *[lambda stop: _handshakes(target, stop)] * 4)


def _handshakes(target: Target, stop: threading.Event) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while not stop.is_set():
        with suppress(OSError), socket.socket() as made:
            made.settimeout(5)
            made.bind((ADDRESS, 0))
            made.connect(("127.0.0.1", target.tls))
            context.wrap_socket(made).close()


def login_flood(target: Target, stop: threading.Event) -> None:
    """Wrong passwords, each of which costs the broker a hash of many rounds."""
    Swarm(target.login, 200, wrong_login, rate=400).run(stop)


def wrong_login() -> bytes:
    proof = b"\0ann\0a guess"
    return encode_request("sasl_handshake", 1, 1, mechanism="PLAIN") + encode_request(
        "sasl_authenticate", 2, 2, auth_bytes=proof
    )


def deaf_readers(target: Target, stop: threading.Event) -> None:
    """They ask for everything and read nothing."""
    asked = encode_request("metadata", 12, 1, topics=None)
    Swarm(target.plain, 100, more=asked * 50, reads=False).run(stop)


def all_topics_in_a_loop(target: Target, stop: threading.Event) -> None:
    def ask(stop: threading.Event) -> None:
        with socket.socket() as made:
            made.bind((ADDRESS, 0))
            made.connect(("127.0.0.1", target.plain))
            made.settimeout(60)
            with suppress(OSError):
                while not stop.is_set():
                    made.sendall(encode_request("metadata", 12, 1, client_id="gatherer", topics=None))
                    left = int.from_bytes(made.recv(4, socket.MSG_WAITALL), "big")
                    while left and not stop.is_set():
                        left -= len(made.recv(min(left, MIB)))

    _together(stop, *[ask] * 4)


def flood_over_quota(target: Target, stop: threading.Event) -> None:
    """To a topic called as the flood; its client id should have a quota."""
    data = [{"name": FLOOD, "partition_data": [{"index": 0, "records": batch([bytes(100_000)])}]}]
    numbers = counting(1)
    request = b"".join(
        encode_request("produce", 11, next(numbers), client_id=FLOOD, acks=1, timeout=10_000, topic_data=data)
        for _ in range(10)
    )
    Swarm(target.plain, 20, more=request).run(stop)


def _together(stop: threading.Event, *parts: Callable[[threading.Event], None]) -> None:
    threads = [threading.Thread(target=part, args=(stop,)) for part in parts]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


ATTACKS: dict[str, Attack] = {
    each.__name__: each
    for each in (
        slowloris,
        five_thousand_connections,
        giant_frames,
        half_giant_frames,
        endless_handshakes,
        login_flood,
        deaf_readers,
        all_topics_in_a_loop,
        flood_over_quota,
    )
}


@contextmanager
def under(attack: Attack, target: Target) -> Iterator[None]:
    """In a process of its own, so that good clients of this one do not wait for its interpreter."""
    ports = map(str, (target.plain, target.login, target.tls))
    command = ["nice", sys.executable, "-m", "tests.faults.hostile_clients", attack.__name__, *ports]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline(), "the attack did not begin"
        yield
    finally:
        process.terminate()
        process.wait(60)


def main() -> int:
    name, *ports = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = threading.Thread(target=ATTACKS[name], args=(Target(*map(int, ports)), stop))
    worker.start()
    print("attacking", flush=True)
    while worker.is_alive():
        time.sleep(0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
