"""Delegation tokens: how long they live, who may change them, and how they log in."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tidelog import errors
from tidelog.access.tokens import (
    Tokens,
    TokenSettings,
    expired,
    expiring,
    new_token,
    renewed,
    token_hmac,
)
from tidelog.metadata.access.access_records import TokenRecord
from tidelog.net.scram import ScramCredential

DAY = 86_400_000
SETTINGS = TokenSettings("key", 7 * DAY, DAY)
OFF = TokenSettings(None)
NOW = 1_700_000_000_000


def made(**changes: Any) -> TokenRecord:
    wanted: dict[str, Any] = {
        "requester": "User:ann",
        "owner": None,
        "renewers": ["User:bob"],
        "max_lifetime_ms": -1,
    }
    return new_token(SETTINGS, **{**wanted, **changes}, now_ms=NOW)


def test_how_long_a_token_lives() -> None:
    token = made()
    assert (token.issued_ms, token.expires_ms, token.max_ms) == (NOW, NOW + DAY, NOW + 7 * DAY)
    assert made(max_lifetime_ms=1000).expires_ms == NOW + 1000 == made(max_lifetime_ms=1000).max_ms
    assert made(max_lifetime_ms=99 * DAY).max_ms == NOW + 7 * DAY
    assert not expired(token, NOW + DAY) and expired(token, NOW + DAY + 1)


def test_whose_a_token_is() -> None:
    assert (made().owner, made(owner="User:zoe").owner) == ("User:ann", "User:zoe")
    with pytest.raises(errors.InvalidPrincipalType):
        made(renewers=["Group:x"])
    with pytest.raises(errors.InvalidRequest):
        made(renewers=["User:x"] * 101)


def test_renewing() -> None:
    token = made()
    for who in ("User:ann", "User:bob"):
        assert renewed(SETTINGS, token, who, -1, NOW + 5).expires_ms == NOW + 5 + DAY
    assert renewed(SETTINGS, token, "User:ann", 10, NOW).expires_ms == NOW + 10
    late = token._replace(expires_ms=NOW + 7 * DAY)
    assert renewed(SETTINGS, late, "User:ann", -1, NOW + 7 * DAY - 1).expires_ms == token.max_ms


def test_expiring() -> None:
    token = made()
    assert expiring(SETTINGS, token, "User:ann", -1, NOW) is None
    changed = expiring(SETTINGS, token, "User:bob", 10, NOW)
    assert changed is not None and changed.expires_ms == NOW + 10


@pytest.mark.parametrize("change", [renewed, expiring])
def test_what_is_refused(change: Any) -> None:
    token = made()
    with pytest.raises(errors.DelegationTokenAuthDisabled):
        change(OFF, token, "User:ann", -1, NOW)
    with pytest.raises(errors.DelegationTokenNotFound):
        change(SETTINGS, None, "User:ann", -1, NOW)
    with pytest.raises(errors.DelegationTokenOwnerMismatch):
        change(SETTINGS, token, "User:eve", -1, NOW)
    with pytest.raises(errors.DelegationTokenExpired):
        change(SETTINGS, token, "User:ann", -1, NOW + DAY + 1)
    with pytest.raises(errors.DelegationTokenAuthDisabled):
        new_token(OFF, "User:ann", None, [], -1, NOW)


def test_a_token_logs_in_with_its_hmac_as_long_as_it_lives() -> None:
    token, secret = made(owner="User:zoe"), token_hmac(SETTINGS, "id")
    tokens = Tokens(SETTINGS, {"id": token})
    assert tokens.id_of(secret) == "id" and tokens.id_of(b"x") is None
    assert Tokens(OFF, {"id": token}).id_of(secret) is None
    login = tokens.login("SCRAM-SHA-256", "id", NOW)
    assert login is not None and login.owner == "User:zoe" and login.expires_ms == token.expires_ms
    again = tokens.login("SCRAM-SHA-256", "id", NOW)
    assert again is not None and again.credential is login.credential
    password = base64.b64encode(secret).decode()
    salt, iterations = login.credential.salt, login.credential.iterations
    assert ScramCredential.of_password("SCRAM-SHA-256", password, salt, iterations) == login.credential
    assert tokens.login("SCRAM-SHA-256", "id", NOW + DAY + 1) is None
    assert tokens.login("SCRAM-SHA-256", "other", NOW) is None
