"""The server's side of SCRAM against our client, against the RFC, and against clients that cheat."""

from __future__ import annotations

import base64

import pytest

from tidelog.access.plain import (
    PlainLogin,
    listed_password_accepted,
    parse_plain,
    password_accepted,
)
from tidelog.access.scram import ScramCredentials, ScramServer, TokenLogin
from tidelog.errors import IllegalSaslState, SaslAuthenticationFailed
from tidelog.net import scram
from tidelog.net.scram import HASHES, MalformedScram, ScramCredential
from tidelog.net.scram_client import ScramClient

MECHANISMS = list(HASHES)
PASSWORD = "correct horse"
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


def users(mechanism: str) -> ScramCredentials:
    names = ("ann", "a,b=c", "björn")
    one = {name: ScramCredential.of_password(mechanism, PASSWORD, name.encode() * 9, 4096) for name in names}
    return ScramCredentials(mechanism, one, b"secret")


def exchange(mechanism: str, name: str, password: str, server: ScramServer | None = None) -> ScramServer:
    client = ScramClient(HASHES[mechanism], name, password, "mine")
    server = server or ScramServer(mechanism, users(mechanism), "yours")
    client.check(server.respond(client.final(server.respond(client.first()))))
    return server


def test_the_exchange_is_that_of_the_rfc() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.of_password("SCRAM-SHA-256", "pencil", salt, 4096)
    credentials = ScramCredentials("SCRAM-SHA-256", {"user": credential}, b"")
    server = ScramServer("SCRAM-SHA-256", credentials, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" and server.complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ann", "a,b=c", "björn"])
def test_who_knows_the_password_gets_in(mechanism: str, name: str) -> None:
    server = exchange(mechanism, name, PASSWORD)
    assert server.complete and server.username == name and server.token is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("ann", "guess"), ("nobody", PASSWORD), ("ann", "")])
def test_who_does_not_is_refused_in_one_shape(mechanism: str, name: str, password: str) -> None:
    server = ScramServer(mechanism, users(mechanism), "yours")
    with pytest.raises(SaslAuthenticationFailed) as caught:
        exchange(mechanism, name, password, server)
    assert str(caught.value) == f"{REFUSED} {mechanism}" and not server.complete
    with pytest.raises(IllegalSaslState):
        server.respond(b"n,,n=ann,r=x")


def test_an_unknown_user_looks_like_a_known_one() -> None:
    def shown(name: str, secret: bytes = b"secret") -> dict[str, str]:
        credentials = ScramCredentials("SCRAM-SHA-256", known, secret)
        server = ScramServer("SCRAM-SHA-256", credentials, "yours")
        return scram.attributes(server.respond(f"n,,n={name},r=mine".encode()))

    known = {
        "ann": ScramCredential.of_password("SCRAM-SHA-256", "x", b"s" * 26, 4096),
        "bob": ScramCredential.of_password("SCRAM-SHA-256", "x", b"s" * 24, 8192),
    }
    shapes = {(len(shown(name)["s"]), shown(name)["i"]) for name in known}
    assert {(len(one["s"]), one["i"]) for one in map(shown, map("user{}".format, range(40)))} == shapes
    assert shown("carl") == shown("carl") and shown("carl")["s"] != shown("dora")["s"]
    assert shown("carl", b"other")["s"] != shown("carl")["s"]


def proven(change: str) -> ScramServer:
    """An exchange of our client, with one thing changed in its last message."""
    server = ScramServer("SCRAM-SHA-256", users("SCRAM-SHA-256"), "yours")
    client = ScramClient("sha256", "ann", PASSWORD, "mine")
    final = client.final(server.respond(client.first())).decode()
    final = {
        "": final,
        "nonce": final.replace("r=mineyours", "r=mineyour5"),
        "proof": final[:-8] + "AAAAAAA=",
        "short": final.split(",p=")[0] + ",p=AAAA",
        "no proof": final.split(",p=")[0],
        "binding": final.replace("c=biws", "c=" + base64.b64encode(b"y,,").decode()),
        "no base64": final.replace(",p=", ",p=="),
    }[change]
    server.respond(final.encode())
    return server


@pytest.mark.parametrize("change", ["nonce", "proof", "short", "no proof", "binding", "no base64"])
def test_a_last_message_that_was_changed_is_refused(change: str) -> None:
    assert proven("").complete
    with pytest.raises(SaslAuthenticationFailed, match=REFUSED):
        proven(change)


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-unique,,n=ann,r=mine",
        b"n,a=bob,n=ann,r=mine",
        b"n,,m=ext,n=ann,r=mine",
        b"n,,n=a=nn,r=mine",
        b"n,,n=ann",
        b"n,,n=,r=mine",
        b"n,,r=mine,n=ann",
        b"x,,n=ann,r=mine",
        b"n,,n=ann,r=",
        b"n,,n=ann,r=a b",
        b"n,,n=ann\0,r=mine",
        b"",
        b"\xff",
        b"n,,n=" + b"a" * 20_000 + b",r=mine",
    ],
)
def test_a_first_message_of_another_shape_is_refused(first: bytes) -> None:
    server = ScramServer("SCRAM-SHA-256", users("SCRAM-SHA-256"), "yours")
    with pytest.raises(SaslAuthenticationFailed, match=REFUSED):
        server.respond(first)


def test_flags_and_extensions_that_are_allowed() -> None:
    for first in (b"y,,n=ann,r=mine", b"n,a=ann,n=ann,r=mine", b"n,,n=ann,r=mine,x=1,foo=bar"):
        server = ScramServer("SCRAM-SHA-256", users("SCRAM-SHA-256"), "yours")
        assert server.respond(first).startswith(b"r=mineyours,s=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_delegation_token_logs_in_under_its_id(mechanism: str) -> None:
    login = TokenLogin("User:zoe", ScramCredential.of_password(mechanism, "hmac", b"salt", 4096), 9)
    found = {"id-1": login}.get

    def attempt(name: str, password: str, extension: str = ",tokenauth=true") -> ScramServer:
        server = ScramServer(mechanism, users(mechanism), "yours", found)
        client = ScramClient(HASHES[mechanism], name, password, "mine")
        client._bare += extension
        client.check(server.respond(client.final(server.respond(client.first()))))
        return server

    assert attempt("id-1", "hmac").token is login
    for name, password, extension in (
        ("id-1", "hmac", ""),
        ("id-2", "hmac", ",tokenauth=true"),
        ("ann", PASSWORD, ",tokenauth=true"),
        ("id-1", "hmac", ",tokenauth=false"),
    ):
        with pytest.raises(SaslAuthenticationFailed, match=REFUSED):
            attempt(name, password, extension)


def test_names_are_escaped_both_ways() -> None:
    for name in ("", "a", "=", ",", "=2C", "a=,b"):
        assert scram.unescaped(scram.escaped(name)) == name
    for wrong in ("=", "a=b", "=2", "=2c"):
        with pytest.raises(MalformedScram):
            scram.unescaped(wrong)


def test_secrets_are_not_shown() -> None:
    credential = ScramCredential.of_password("SCRAM-SHA-256", "geheim", b"salty", 4096)
    assert repr(credential) == str(credential) == "ScramCredential(iterations=4096)"
    assert "geheim" not in repr(parse_plain(b"\0ann\0geheim"))


# PLAIN


def test_plain_messages() -> None:
    assert parse_plain(b"\0ann\0pass") == PlainLogin("ann", "pass") == parse_plain(b"ann\0ann\0pass")
    assert parse_plain("\0björn\0päss".encode()) == PlainLogin("björn", "päss")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "expected 3 tokens"),
        (b"ann\0pass", "expected 3 tokens"),
        (b"\0ann\0pass\0", "expected 3 tokens"),
        (b"\0ann\0" + b"x" * 20_000, "expected 3 tokens"),
        (b"\0\0pass", "username not specified"),
        (b"\0ann\0", "password not specified"),
        (b"bob\0ann\0pass", "authorization id that is different"),
        (b"\0\xff\0pass", "UTF-8"),
    ],
)
def test_plain_messages_of_another_shape(message: bytes, said: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=said) as caught:
        parse_plain(message)
    assert "pass" not in str(caught.value).replace("password not", "")


def test_plain_against_scram_credentials_and_lists() -> None:
    mechanism = "SCRAM-SHA-512"
    assert password_accepted(mechanism, users(mechanism), PlainLogin("ann", PASSWORD))
    assert not password_accepted(mechanism, users(mechanism), PlainLogin("ann", "guess"))
    assert not password_accepted(mechanism, users(mechanism), PlainLogin("nobody", PASSWORD))
    assert listed_password_accepted({"ann": "x"}, PlainLogin("ann", "x"))
    assert not listed_password_accepted({"ann": "x"}, PlainLogin("ann", "y"))
    assert not listed_password_accepted({"ann": "x"}, PlainLogin("bob", "x"))
    assert not listed_password_accepted({"ann": "x"}, PlainLogin("bob", ""))
