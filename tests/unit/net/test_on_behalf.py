"""Messages of brokers that ask on behalf of a user."""

from __future__ import annotations

import base64
import json

from tidelog.net.on_behalf import LIFETIME_MS, Behalf, sign, verify

SECRET = bytes(range(32))
ALICE = Behalf("User:alice", ("Group:staff",), "10.0.0.7")


def test_a_message_says_who_asks() -> None:
    message = sign(SECRET, ALICE, 1_000).encode()
    assert verify(SECRET, message, 1_000) == verify(SECRET, message, 1_000 + LIFETIME_MS) == ALICE


def test_a_message_counts_for_its_lifetime_only() -> None:
    message = sign(SECRET, ALICE, 100_000).encode()
    assert verify(SECRET, message, 100_001 + LIFETIME_MS) is None
    # The clock of the other broker may be ahead by as much, and no further.
    assert verify(SECRET, message, 100_000 - LIFETIME_MS) == ALICE
    assert verify(SECRET, message, 99_999 - LIFETIME_MS) is None


def test_nobody_makes_a_message_without_the_secret() -> None:
    message = sign(SECRET, ALICE, 0).encode()
    content, _, mac = message.partition(b".")
    fields = json.loads(base64.urlsafe_b64decode(content))
    forged = base64.urlsafe_b64encode(json.dumps(["User:admin", *fields[1:]]).encode())
    for text in (
        forged + b"." + mac,
        content,
        content + b".",
        content + b"." + mac[:-1],
        content + b"." + mac.upper(),
        b"." + mac,
        b".",
        b"",
        b"\xff\0.\xff",
        b"x" * 1_000_000,
        sign(bytes(32), ALICE, 0).encode(),
    ):
        assert verify(SECRET, text, 0) is None, text


def test_a_cluster_without_a_secret_accepts_no_message() -> None:
    for message in (b"", b".", sign(SECRET, ALICE, 0).encode()):
        assert verify(b"", message, 0) is None
