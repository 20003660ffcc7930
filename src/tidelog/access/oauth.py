"""OAUTHBEARER (RFC 7628) and the JSON Web Tokens it carries (RFC 7515, 7517, 7519).  Pure: keys, clock and settings are
passed in; the caller reads the JWKS from a file or a URL.

Only signatures by a public key count (RS, PS and ES with SHA-256, -384 or -512).  'none' and HMAC are no algorithms
here, whatever a token says, and a key serves only algorithms of its own type.  Signatures are checked by the
`cryptography` package."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.errors import SaslAuthenticationFailed
from tidelog.extras import need

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

TOKEN_BYTES_MAX = 16_384
JWKS_BYTES_MAX = 1 << 20
KEYS_MAX = 100
KEYS_TRIED_MAX = 8
"""By a token that does not name its key: each try costs a signature check."""
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16_384

# algorithm: (key type, hash, the curve and the bytes of one coordinate)
_ALGORITHMS: dict[str, tuple[str, str, str, int]] = {
    "RS256": ("RSA", "SHA256", "", 0),
    "RS384": ("RSA", "SHA384", "", 0),
    "RS512": ("RSA", "SHA512", "", 0),
    "PS256": ("RSA", "SHA256", "", 0),
    "PS384": ("RSA", "SHA384", "", 0),
    "PS512": ("RSA", "SHA512", "", 0),
    "ES256": ("EC", "SHA256", "P-256", 32),
    "ES384": ("EC", "SHA384", "P-384", 48),
    "ES512": ("EC", "SHA512", "P-521", 66),
}
_CURVES = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}
_PART = re.compile(r"[A-Za-z0-9_-]*")

# Messages

_SASLNAME = r"(?:[^\x00=,]|=2C|=3D)+"
_INITIAL = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01"
)
_AUTH = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)
_MESSAGE_BYTES_MAX = 2 * TOKEN_BYTES_MAX


class TokenRefused(Exception):
    """The token does not prove anything; the text is for the broker's log."""


class BearerMessage(NamedTuple):
    token: str
    authzid: str
    extensions: Mapping[str, str]


class TokenIdentity(NamedTuple):
    """What a valid token says."""

    name: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """What a token must say; the names are those of `sasl.oauthbearer.*`."""

    expected_issuer: str | None = None
    expected_audience: tuple[str, ...] = ()
    scope_claim_name: str = "scope"
    sub_claim_name: str = "sub"
    groups_claim_name: str | None = None
    clock_skew_seconds: int = 30
    required_scopes: frozenset[str] = frozenset()
    expected_nonce: str | None = None
    """The nonce with which the log-in began; the id token must have the same nonce."""
    authorized_party: str | None = None
    """The client that an id token must be for, if the token names a client (`azp`)."""
    issuer_setting: str = "sasl.oauthbearer.expected.issuer"
    audience_setting: str = "sasl.oauthbearer.expected.audience"


class Jwk(NamedTuple):
    """One usable public key."""

    kid: str | None
    kty: str
    alg: str | None
    curve: str
    numbers: tuple[int, int]

    def serves(self, algorithm: str) -> bool:
        kty, _, curve, _ = _ALGORITHMS[algorithm]
        return self.kty == kty and self.curve == curve and self.alg in (None, algorithm)


class JwkSet:
    """The keys of one provider."""

    def __init__(self, keys: tuple[Jwk, ...]) -> None:
        self.keys = keys

    @cached_property
    def _public_keys(self) -> dict[Jwk, Any]:
        return {}

    def has(self, kid: str) -> bool:
        return any(key.kid == kid for key in self.keys)

    def candidates(self, kid: str | None, algorithm: str) -> list[Jwk]:
        """The keys a token may be signed by; with a key id only that one."""
        serving = [key for key in self.keys if key.serves(algorithm)]
        if kid is not None:
            return [key for key in serving if key.kid == kid][:1]
        return serving[:KEYS_TRIED_MAX]

    def public_key(self, key: Jwk) -> Any:
        public_key = self._public_keys.get(key)
        if public_key is None:
            public_key = self._public_keys[key] = _public_key(key)
        return public_key


def parse_jwks(data: bytes | str) -> JwkSet:
    """ValueError when it is no key set.  Keys that cannot check signatures of ours are passed over."""
    if len(data) > JWKS_BYTES_MAX:
        raise ValueError(f"a key set of {len(data)} bytes is too large")
    document = _json(data)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError("no key set: it has no list 'keys'")
    usable = (_jwk(key) for key in keys[:KEYS_MAX] if isinstance(key, dict))
    return JwkSet(tuple(key for key in usable if key is not None))


def key_id_of(token: str) -> str | None:
    """Which key a token names, before anything of it is checked; None when it names none, or cannot be read."""
    if len(token) > TOKEN_BYTES_MAX:
        return None
    start = token.partition(".")[0]
    try:
        key_id = _part(start, "header").get("kid") if _PART.fullmatch(start) else None
    except TokenRefused:
        return None
    return key_id if isinstance(key_id, str) else None


def validate_token(token: str, keys: JwkSet, policy: TokenPolicy, now_ms: int) -> TokenIdentity:
    """TokenRefused says why a token does not count."""
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenRefused(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    parts = token.split(".")
    if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        raise TokenRefused("the token is no signed JSON Web Token")
    header, claims = _part(parts[0], "header"), _part(parts[1], "claims")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise TokenRefused(f"the token's algorithm is not accepted: use {', '.join(_ALGORITHMS)}")
    if "crit" in header:
        raise TokenRefused("the token has critical extensions, which this broker does not support")
    if kid is not None and not isinstance(kid, str):
        raise TokenRefused("the token's key id is no text")
    signed, signature = f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2])
    candidates = keys.candidates(kid, algorithm)
    if not candidates:
        raise TokenRefused(f"no key of the provider has the id {kid!r} and serves {algorithm}")
    if not any(_verified(keys.public_key(key), algorithm, signed, signature) for key in candidates):
        raise TokenRefused("the token's signature is wrong")
    return _identity(claims, policy, now_ms)


def _identity(claims: Mapping[str, Any], policy: TokenPolicy, now_ms: int) -> TokenIdentity:
    skew_ms = policy.clock_skew_seconds * 1000
    expires_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat")
    if expires_ms is None or issued_ms is None:
        raise TokenRefused("the token lacks the claim 'exp' or 'iat'")
    if now_ms >= expires_ms + skew_ms:
        raise TokenRefused("the token has expired")
    not_before_ms = _time_ms(claims, "nbf")
    if not_before_ms is not None and now_ms < not_before_ms - skew_ms:
        raise TokenRefused("the token is not valid yet")
    if now_ms < issued_ms - skew_ms:
        raise TokenRefused("the token was issued in the future: compare the clocks")
    if policy.expected_issuer is not None and claims.get("iss") != policy.expected_issuer:
        raise TokenRefused(f"the token is by another issuer than {policy.issuer_setting}")
    audience = _texts(claims.get("aud"), "aud")
    if (audience or policy.expected_audience) and not set(audience) & set(policy.expected_audience):
        raise TokenRefused(f"the token is for another audience than {policy.audience_setting}")
    _check_id_token(claims, audience, policy)
    name = claims.get(policy.sub_claim_name)
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise TokenRefused(f"the token has no name in the claim {policy.sub_claim_name!r}")
    if policy.sub_claim_name == "email" and claims.get("email_verified") is False:
        raise TokenRefused("the token's e-mail address is not verified")
    scope = claims.get(policy.scope_claim_name)
    scopes = frozenset(scope.split() if isinstance(scope, str) else _texts(scope, policy.scope_claim_name))
    if not policy.required_scopes <= scopes:
        raise TokenRefused(f"the token lacks the scope {' '.join(sorted(policy.required_scopes - scopes))}")
    groups: tuple[str, ...] = ()
    if policy.groups_claim_name is not None:
        groups = _texts(_nested(claims, policy.groups_claim_name), policy.groups_claim_name)
    return TokenIdentity(name, expires_ms, scopes, groups)


def _check_id_token(claims: Mapping[str, Any], audience: tuple[str, ...], policy: TokenPolicy) -> None:
    """OpenID Connect Core, 3.1.3.7: the nonce, and for whom the token was made if it is for several."""
    if policy.expected_nonce is not None and claims.get("nonce") != policy.expected_nonce:
        raise TokenRefused("the token's nonce is of another log-in")
    party = claims.get("azp")
    if policy.authorized_party is not None and party != policy.authorized_party:
        if party is not None:
            raise TokenRefused("the token was issued for another client")
        if len(audience) > 1:
            raise TokenRefused("the token is for several audiences, and names no authorized party")


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        raise TokenRefused(f"the token's claim {name!r} is no time")
    return int(value * 1000)


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(value, str) for value in values):
        raise TokenRefused(f"the token's claim {name!r} is neither a text nor a list of texts")
    return tuple(values)


def _nested(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of that name, or `realm_access.roles` step by step."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


# Encodings


def _part(text: str, part_name: str) -> dict[str, Any]:
    try:
        content = _json(_decoded(text))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise TokenRefused(f"the token's {part_name} are no JSON object")
    return content


def _decoded(text: str) -> bytes:
    if len(text) % 4 == 1:
        raise TokenRefused("the token is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _json(data: bytes | str) -> Any:
    """ValueError, too, for what parsers read differently (a name twice, NaN) and for bottomless nesting."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise ValueError("an object has a name twice")
        return content

    def number(text: str) -> Any:
        raise ValueError(f"{text} is no number of JSON")

    try:
        return json.loads(data, object_pairs_hook=once, parse_constant=number)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _jwk(fields: Mapping[str, Any]) -> Jwk | None:
    kid, kty, alg = fields.get("kid"), fields.get("kty"), fields.get("alg")
    operations = fields.get("key_ops")
    if (
        fields.get("use") not in (None, "sig")
        or not isinstance(kid, str | None)
        or not isinstance(alg, str | None)
    ):
        return None
    if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
        return None
    try:
        if kty == "RSA":
            modulus, exponent = _integer(fields.get("n")), _integer(fields.get("e"))
            if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX or not 3 <= exponent < 1 << 64:
                return None
            return Jwk(kid, kty, alg, "", (modulus, exponent))
        if kty == "EC" and (curve := fields.get("crv")) in _CURVES:
            return Jwk(kid, kty, alg, str(curve), (_integer(fields.get("x")), _integer(fields.get("y"))))
    except (ValueError, TokenRefused):
        return None
    return None


def _integer(text: Any) -> int:
    if not isinstance(text, str) or not _PART.fullmatch(text.rstrip("=")):
        raise ValueError("no base64url")
    return int.from_bytes(_decoded(text.rstrip("=")), "big")


# Signatures


def _public_key(key: Jwk) -> RSAPublicKey | EllipticCurvePublicKey | None:
    """None for numbers that are no key, as a point beside its curve."""
    need("cryptography", "OAuth tokens")
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        if key.kty == "RSA":
            return rsa.RSAPublicNumbers(key.numbers[1], key.numbers[0]).public_key()
        curve = getattr(ec, _CURVES[key.curve])()
        return ec.EllipticCurvePublicNumbers(*key.numbers, curve).public_key()
    except ValueError:
        return None


def _verified(public_key: Any, algorithm: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

    kty, hash_name, _, size = _ALGORITHMS[algorithm]
    digest = getattr(hashes, hash_name)()
    if public_key is None or (kty == "EC" and len(signature) != 2 * size):
        return False
    try:
        if algorithm.startswith("RS"):
            public_key.verify(signature, signed, padding.PKCS1v15(), digest)
        elif algorithm.startswith("PS"):
            salted = padding.PSS(padding.MGF1(digest), digest.digest_size)
            public_key.verify(signature, signed, salted, digest)
        else:
            first, second = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
            public_key.verify(utils.encode_dss_signature(first, second), signed, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True


# The exchange


def parse_bearer(message: bytes) -> BearerMessage:
    """The client's first message."""
    match = None
    if len(message) <= _MESSAGE_BYTES_MAX:
        try:
            match = _INITIAL.fullmatch(message.decode())
        except UnicodeDecodeError:
            match = None
    if match is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs: dict[str, str] = {}
    for pair in match["pairs"].split("\x01")[:-1]:
        name, _, value = pair.partition("=")
        if name in pairs:
            raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message: a name occurs twice")
        pairs[name] = value
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return BearerMessage(auth[1], match["authzid"] or "", pairs)


class BearerServer:
    """One exchange: `respond` gives b'' when the token is good, and a JSON error otherwise, which the client answers
    with one byte 1 before it is refused."""

    def __init__(self, keys: JwkSet, policy: TokenPolicy) -> None:
        self._keys = keys
        self._policy = policy
        self._failed = False
        self._over = False
        self.identity: TokenIdentity | None = None
        self.refusal = ""
        """For the broker's log: the client is only told that the token is not valid."""

    @property
    def complete(self) -> bool:
        return self.identity is not None

    def respond(self, message: bytes, now_ms: int) -> bytes:
        if self._over or self._failed:
            over, self._over = self._over, True
            raise SaslAuthenticationFailed(
                "the OAUTHBEARER exchange is over"
                if over
                else "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
            )
        try:
            response = parse_bearer(message)
            identity = validate_token(response.token, self._keys, self._policy, now_ms)
        except SaslAuthenticationFailed:
            self._over = True
            raise
        except TokenRefused as problem:
            self._failed, self.refusal = True, str(problem)
            return b'{"status":"invalid_token"}'
        self._over = True
        if response.authzid and response.authzid != identity.name:
            raise SaslAuthenticationFailed(
                "Authentication failed: Client requested an authorization id "
                f"({response.authzid}) that is different from the token's principal name ({identity.name})"
            )
        self.identity = identity
        return b""
