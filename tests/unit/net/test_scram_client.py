"""SCRAM against the examples of RFC 5802 (SHA-1) and RFC 7677 (SHA-256), and against servers that cheat."""

from __future__ import annotations

import pytest

from tidelog.errors import SaslAuthenticationFailed
from tidelog.net.scram_client import ScramClient

EXAMPLES = {
    "sha1": (
        "fyko+d2lbbFgONRv9qkxdawL",
        b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "sha256": (
        "rOprNGfwEbeRWgbNEkqO",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


@pytest.mark.parametrize("hash_name", EXAMPLES)
def test_the_exchange_is_that_of_the_rfc(hash_name: str) -> None:
    nonce, first, server_first, final, server_final = EXAMPLES[hash_name]
    client = ScramClient(hash_name, "user", "pencil", nonce)
    assert client.first() == first
    assert client.final(server_first) == final
    client.check(server_final)


def test_names_are_escaped() -> None:
    assert ScramClient("sha256", "a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("server_first", "message"),
    [
        (b"r=other,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=mine,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=mine1,s=QSXCR+Q6sek8bf92,i=1", "iterations"),
        (b"r=mine1,s=QSXCR+Q6sek8bf92,i=999999999999", "iterations"),
        (b"r=mine1,s=QSXCR+Q6sek8bf92", "iterations"),
        (b"r=mine1,s=!!,i=4096", "base64"),
        (b"\xff", "not text"),
        (b"e=unknown-user", "unknown-user"),
    ],
)
def test_a_server_that_cheats_is_refused(server_first: bytes, message: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=message):
        ScramClient("sha256", "user", "pencil", "mine").final(server_first)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    nonce, _, server_first, _, _ = EXAMPLES["sha256"]
    client = ScramClient("sha256", "user", "pencil", nonce)
    client.final(server_first)
    for wrong in (b"v=AAAA", b"", b"e=other-error"):
        with pytest.raises(SaslAuthenticationFailed):
            client.check(wrong)
