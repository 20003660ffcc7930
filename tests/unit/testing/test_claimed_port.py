from __future__ import annotations

import socket

import pytest

from tidelog.net.network import listen
from tidelog.testing.claimed_port import LOOPBACK, ClaimedPort


def test_nobody_else_gets_the_port_while_no_broker_listens_there() -> None:
    with ClaimedPort() as claim:
        with pytest.raises(OSError, match="in use"):
            ClaimedPort(claim.number)
        with socket.socket() as outgoing, pytest.raises(OSError, match="in use"):
            outgoing.bind((LOOPBACK, claim.number))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, claim.number))


def test_a_broker_listens_there_again_and_again_also_after_connections() -> None:
    with ClaimedPort() as claim:
        for _ in range(2):
            listening = listen(LOOPBACK, claim.number)
            with socket.create_connection((LOOPBACK, claim.number)) as client:
                listening.setblocking(True)
                accepted, _ = listening.accept()
                accepted.close()  # before the client's end: the port is in TIME_WAIT
                assert client.recv(1) == b""
            listening.close()


def test_a_port_with_a_listener_cannot_be_claimed() -> None:
    listening = listen(LOOPBACK, 0)
    with pytest.raises(OSError, match="in use"):
        ClaimedPort(listening.getsockname()[1])
    listening.close()


def test_a_released_port_can_be_claimed_again() -> None:
    claim = ClaimedPort()
    claim.release()
    ClaimedPort(claim.number).release()
