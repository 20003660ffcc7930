"""Whatever a stranger sends to a log-in, or an administrator writes into a rule, ends in a clean error or a value."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.access.oauth import (
    BearerServer,
    TokenPolicy,
    TokenRefused,
    parse_bearer,
    parse_jwks,
    validate_token,
)
from tidelog.access.plain import parse_plain
from tidelog.access.principals import KerberosNamer, NoRuleApplies, Principal, SslPrincipalMapper
from tidelog.access.scram import REFUSED, ScramCredentials, ScramServer
from tidelog.errors import InvalidConfig, InvalidRequest, SaslAuthenticationFailed
from tidelog.metadata.access.access_records import quota_entity, quota_key
from tidelog.net.scram import ScramCredential
from tidelog.net.scram_client import ScramClient
from tidelog.wire.client_quotas import QuotaEntity

MECHANISM = "SCRAM-SHA-256"
CREDENTIALS = ScramCredentials(
    MECHANISM, {"ann": ScramCredential.of_password(MECHANISM, "secret", b"salt" * 6, 4096)}, b"key"
)
scram_text = st.lists(
    st.sampled_from(
        [
            "n",
            "y",
            "p=x",
            ",",
            ",,",
            "n=ann",
            "r=",
            "mineyours",
            "c=biws",
            "p=AAAA",
            "a=ann",
            "=2C",
            "é",
            "\0",
            "m=1",
        ]
    )
    | st.text(max_size=4),
    max_size=10,
).map("".join)
messages = st.binary(max_size=80) | scram_text.map(str.encode)
KEYS = parse_jwks('{"keys": [{"kty": "RSA", "kid": "r", "n": "%s", "e": "AQAB"}]}' % ("w" * 400))


@settings(max_examples=500)
@given(messages, messages)
def test_scram_refuses_in_one_shape(first: bytes, final: bytes) -> None:
    server = ScramServer(MECHANISM, CREDENTIALS, "yours")
    try:
        answer = server.respond(first)
        assert answer.startswith(b"r=") and b"yours,s=" in answer
        server.respond(final)
    except SaslAuthenticationFailed as problem:
        assert str(problem) == REFUSED.format(MECHANISM)
    assert not server.complete


@given(st.binary(max_size=60), st.integers(0, 10_000))
def test_no_change_of_a_good_exchange_gets_in(noise: bytes, place: int) -> None:
    server = ScramServer(MECHANISM, CREDENTIALS, "yours")
    client = ScramClient("sha256", "ann", "secret", "mine")
    good = client.final(server.respond(client.first()))
    at = place % (len(good) + 1)
    final = good[:at] + noise + good[at + len(noise) :]
    with suppress(SaslAuthenticationFailed):
        server.respond(final)
    # Only the message as it was proves anything; extensions before the proof change what is proved.
    assert server.complete == (final == good)


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(alphabet="\0ab", max_size=12).map(str.encode))
def test_plain(message: bytes) -> None:
    with suppress(SaslAuthenticationFailed):
        login = parse_plain(message)
        assert login.username and login.password and "\0" not in login.username + login.password


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
headers = st.dictionaries(
    st.sampled_from(["alg", "kid", "crit", "typ"]), json_values | st.sampled_from(["RS256", "r", "ES256"])
)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


tokens = st.text(max_size=60) | st.builds(
    lambda header, claims, signature: ".".join(
        (encoded(json.dumps(header).encode()), encoded(json.dumps(claims).encode()), encoded(signature))
    ),
    headers | json_values,
    json_values,
    st.binary(max_size=300),
)


@settings(max_examples=400)
@given(tokens)
def test_tokens_without_a_good_signature_are_refused(token: str) -> None:
    try:
        validate_token(token, KEYS, TokenPolicy(), 0)
    except TokenRefused:
        return
    raise AssertionError("nobody signed this")


@settings(max_examples=300)
@given(
    st.binary(max_size=80)
    | tokens.map(lambda token: f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    | st.lists(
        st.sampled_from(["n,,", "a=x", "\x01", "auth=", "Bearer ", "k=v", "e30.e30."]), max_size=9
    ).map(lambda parts: "".join(parts).encode())
)
def test_bearer_messages(message: bytes) -> None:
    with suppress(SaslAuthenticationFailed):
        parse_bearer(message)
    server = BearerServer(KEYS, TokenPolicy())
    with suppress(SaslAuthenticationFailed):
        assert server.respond(message, 0) == b'{"status":"invalid_token"}'
    assert not server.complete


@settings(max_examples=300)
@given(
    st.binary(max_size=60)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.lists(
        st.dictionaries(
            st.sampled_from(["kty", "kid", "alg", "n", "e", "x", "y", "crv", "use", "key_ops"]),
            json_values
            | st.sampled_from(["RSA", "EC", "oct", "P-256", "AQAB", "sig", ["verify"], "w" * 400]),
        ),
        max_size=4,
    ).map(lambda keys: json.dumps({"keys": keys}).encode())
)
def test_key_sets(data: bytes) -> None:
    with suppress(ValueError):
        keys = parse_jwks(data)
        for key in keys.keys:
            keys.public_key(key)


rule_text = st.lists(
    st.sampled_from(
        ["RULE:", "DEFAULT", "/", ",", "(.*)", "$1", "$9", "\\", "L", "U", "^CN=", "[1:$1]", "s/", "g", "("]
    )
    | st.text(max_size=3),
    max_size=9,
).map("".join)


@settings(max_examples=400)
@given(rule_text, st.text(max_size=20) | st.sampled_from(["CN=ann,O=b", "ann@R", "a/b@R"]))
def test_mapping_rules(rules: str, name: str) -> None:
    with suppress(InvalidConfig, NoRuleApplies):
        SslPrincipalMapper(rules).name_of(name)
    with suppress(InvalidConfig, NoRuleApplies):
        short = KerberosNamer([rules], "R").name_of(name)
        assert "/" not in short and "@" not in short
    with suppress(InvalidRequest):
        assert str(Principal.parse(name)) == name


@given(st.tuples(*[st.none() | st.text(alphabet="a&=+% /~é", max_size=5)] * 3))
def test_quota_entities_are_keys(parts: tuple[str | None, str | None, str | None]) -> None:
    entity = QuotaEntity(*parts)
    assert quota_entity(quota_key(entity).partition("/")[2]) == entity
