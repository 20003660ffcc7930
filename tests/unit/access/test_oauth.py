"""Bearer tokens: what is accepted, and every trick that must not be."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tidelog.access.oauth import (
    BearerServer,
    JwkSet,
    TokenIdentity,
    TokenPolicy,
    TokenRefused,
    parse_bearer,
    parse_jwks,
    validate_token,
)
from tidelog.errors import SaslAuthenticationFailed

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
CLAIMS: dict[str, Any] = {"sub": "ann", "iat": NOW - 5, "exp": NOW + 60}
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
SIZES = {"ES256": 32, "ES384": 48, "ES512": 66}

RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEYS: dict[str, ec.EllipticCurvePrivateKey] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_jwk(key: rsa.RSAPrivateKey = RSA_KEY, **more: Any) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": "r", "use": "sig", "n": number(numbers.n), "e": number(numbers.e), **more}


def ec_jwk(algorithm: str, **more: Any) -> dict[str, Any]:
    numbers = EC_KEYS[algorithm].public_key().public_numbers()
    crv = CURVES[algorithm]
    return {"kty": "EC", "kid": algorithm, "crv": crv, "x": number(numbers.x), "y": number(numbers.y), **more}


def sign(algorithm: str, data: bytes) -> bytes:
    digest = HASHES[algorithm[2:]]
    if algorithm.startswith("RS"):
        return RSA_KEY.sign(data, padding.PKCS1v15(), digest)
    if algorithm.startswith("PS"):
        return RSA_KEY.sign(data, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
    first, second = utils.decode_dss_signature(EC_KEYS[algorithm].sign(data, ec.ECDSA(digest)))
    return first.to_bytes(SIZES[algorithm], "big") + second.to_bytes(SIZES[algorithm], "big")


def token(algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """None takes a claim out."""
    content = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    kid = "r" if algorithm[:2] in ("RS", "PS") else algorithm
    start = {"alg": algorithm, "typ": "JWT", "kid": kid, **(header or {})}
    signed = f"{b64(json.dumps(start).encode())}.{b64(json.dumps(content).encode())}"
    return f"{signed}.{b64(sign(algorithm, signed.encode()))}"


KEYS = parse_jwks(json.dumps({"keys": [rsa_jwk(), *map(ec_jwk, EC_KEYS)]}))
ALGORITHMS = [family + size for family in ("RS", "PS", "ES") for size in HASHES]


def told(text: str, policy: TokenPolicy | None = None, keys: JwkSet = KEYS) -> TokenIdentity:
    return validate_token(text, keys, policy or TokenPolicy(), NOW_MS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_token_says_who_it_is(algorithm: str) -> None:
    assert told(token(algorithm)) == TokenIdentity("ann", (NOW + 60) * 1000)
    good = token(algorithm)
    head, body, signature = good.split(".")
    other = b64(json.dumps({**CLAIMS, "sub": "root"}).encode())
    turned = b64(
        bytes([base64.urlsafe_b64decode(signature + "==")[0] ^ 1])
        + base64.urlsafe_b64decode(signature + "==")[1:]
    )
    for bad in (f"{head}.{other}.{signature}", f"{head}.{body}.{turned}", f"{head}.{body}."):
        with pytest.raises(TokenRefused, match="signature is wrong"):
            told(bad)


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(CLAIMS).encode())}.{b64(signature)}"


def test_no_algorithm_is_none_or_a_shared_secret() -> None:
    import hmac

    for name in ("none", "None", "NONE", "HS256", "HS512", "EdDSA", "", None, 7, ["RS256"]):
        with pytest.raises(TokenRefused, match="algorithm"):
            told(unsigned({"alg": name, "kid": "r"}))
    # The classic: the public key as the secret of an HMAC.
    pem = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = unsigned({"alg": "HS256", "kid": "r"}).rsplit(".", 1)[0]
    with pytest.raises(TokenRefused, match="algorithm"):
        told(f"{head}.{b64(hmac.digest(pem, head.encode(), 'sha256'))}")


def test_a_key_serves_its_own_algorithms_only() -> None:
    for keys in (
        [rsa_jwk(alg="RS512")],
        [rsa_jwk(use="enc")],
        [rsa_jwk(key_ops=["encrypt"])],
        [rsa_jwk(kid="other")],
        [rsa_jwk(rsa.generate_private_key(65537, 1024))],
        [{"kty": "oct", "kid": "r", "k": b64(b"secret")}],
        [{"kty": "EC", "kid": "r", "crv": "P-256", "x": number(5), "y": number(6)}],
        [rsa_jwk(n="!!!")],
        [rsa_jwk(n=None)],
        [],
        ["text", None, 5],
    ):
        with pytest.raises(TokenRefused, match="no key"):
            told(token(), keys=parse_jwks(json.dumps({"keys": keys})))
    off_curve = {**ec_jwk("ES256"), "y": number(7)}
    with pytest.raises(TokenRefused, match="signature"):
        told(token("ES256"), keys=parse_jwks(json.dumps({"keys": [off_curve]})))


def test_a_token_without_a_key_id_may_be_by_any_fitting_key() -> None:
    keys = parse_jwks(
        json.dumps({"keys": [rsa_jwk(rsa.generate_private_key(65537, 2048), kid="x"), rsa_jwk()]})
    )
    assert told(token(header={"kid": None}), keys=keys).name == "ann"
    many = parse_jwks(
        json.dumps({"keys": [{**rsa_jwk(), "kid": str(n), "n": number((1 << 2047) + n)} for n in range(50)]})
    )
    assert len(many.candidates(None, "RS256")) == 8


@pytest.mark.parametrize(
    "data", ["", "[]", "{}", '{"keys": 5}', "null", "\xff", "[" * 5000, '{"keys":[],"keys":[]}']
)
def test_what_is_no_key_set(data: str) -> None:
    with pytest.raises(ValueError):
        parse_jwks(data)
    with pytest.raises(ValueError):
        parse_jwks(b" " * (2 << 20))


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": NOW - 31}, "expired"),
        ({"exp": None}, "lacks"),
        ({"iat": None}, "lacks"),
        ({"exp": "soon"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": 1e300}, "no time"),
        ({"exp": -1}, "no time"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 31}, "future"),
        ({"sub": None}, "no name"),
        ({"sub": " "}, "no name"),
        ({"sub": 5}, "no name"),
        ({"aud": "elsewhere"}, "audience"),
        ({"aud": ["elsewhere"]}, "audience"),
        ({"aud": 5}, "neither"),
        ({"scope": 5}, "neither"),
    ],
)
def test_claims_that_do_not_count(claims: dict[str, Any], said: str) -> None:
    with pytest.raises(TokenRefused, match=said):
        told(token(**claims))


def test_clocks_may_differ_by_the_skew() -> None:
    assert told(token(exp=NOW - 29)) and told(token(nbf=NOW + 29, iat=NOW + 29))
    with pytest.raises(TokenRefused, match="expired"):
        told(token(exp=NOW - 29), TokenPolicy(clock_skew_seconds=10))


def test_issuer_audience_scope_and_groups() -> None:
    policy = TokenPolicy(
        expected_issuer="https://id",
        expected_audience=("kafka", "tidelog"),
        sub_claim_name="preferred_username",
        scope_claim_name="scp",
        groups_claim_name="realm_access.roles",
        required_scopes=frozenset(["mq"]),
    )
    good: dict[str, Any] = {
        "iss": "https://id",
        "aud": ["other", "tidelog"],
        "preferred_username": "bob",
        "scp": "openid mq",
        "realm_access": {"roles": ["staff", "ops"]},
    }
    found = told(token(**good), policy)
    assert found == ("bob", (NOW + 60) * 1000, frozenset({"openid", "mq"}), ("staff", "ops"))
    assert told(token(**{**good, "scp": ["mq"], "realm_access": None}), policy).groups == ()
    for change, said in (
        ({"iss": "https://evil"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"scp": "openid"}, "lacks the scope mq"),
        ({"preferred_username": None}, "preferred_username"),
        ({"realm_access": {"roles": [1]}}, "neither"),
    ):
        with pytest.raises(TokenRefused, match=said):
            told(token(**{**good, **change}), policy)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "....",
        "e30.e30.e30",
        "W10.W10.",
        "!!.e30.",
        "x" * 20_000,
        b64(b"[" * 9000) + ".e30.",
        b64(b'{"alg":"RS256","alg":"none"}') + ".e30.",
        b64(b'{"alg":"RS256","exp":NaN}') + ".e30.",
    ],
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenRefused):
        told(text)


def test_critical_extensions_are_refused() -> None:
    with pytest.raises(TokenRefused, match="critical"):
        told(token(header={"crit": ["b64"], "b64": False}))


# The exchange


def test_messages() -> None:
    said = parse_bearer(b"n,a=ann,\x01auth=Bearer a.b-c_.d\x01host=x\x01\x01")
    assert said == ("a.b-c_.d", "ann", {"host": "x"})
    assert parse_bearer(b"n,,\x01auth=bearer  x\x01\x01").token == "x"
    for wrong in (
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 40_000 + b"\x01\x01",
    ):
        with pytest.raises(SaslAuthenticationFailed, match="Invalid OAUTHBEARER client first message"):
            parse_bearer(wrong)


def first(text: str, authzid: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {text}\x01\x01".encode()


def test_an_exchange() -> None:
    server = BearerServer(KEYS, TokenPolicy())
    assert server.respond(first(token()), NOW_MS) == b"" and server.complete
    assert server.identity is not None and server.identity.name == "ann"
    with pytest.raises(SaslAuthenticationFailed, match="over"):
        server.respond(b"\x01", NOW_MS)


def test_a_bad_token_is_refused_after_the_clients_last_byte() -> None:
    refusals = []
    for text in (token(exp=NOW - 100), token(sub=None), "nonsense"):
        server = BearerServer(KEYS, TokenPolicy())
        assert server.respond(first(text), NOW_MS) == b'{"status":"invalid_token"}'
        with pytest.raises(SaslAuthenticationFailed, match="invalid credentials"):
            server.respond(b"\x01", NOW_MS)
        with pytest.raises(SaslAuthenticationFailed, match="over"):
            server.respond(first(token()), NOW_MS)
        assert not server.complete
        refusals.append(server.refusal)
    assert len(set(refusals)) == 3


def test_a_client_is_who_its_token_says() -> None:
    server = BearerServer(KEYS, TokenPolicy())
    with pytest.raises(SaslAuthenticationFailed, match="different from the token's principal"):
        server.respond(first(token(), "a=root"), NOW_MS)
    assert not server.complete
    assert BearerServer(KEYS, TokenPolicy()).respond(first(token(), "a=ann"), NOW_MS) == b""
